// What views are made of: a panel with a heading, a number that leads to its rows, a state's word.
import type { ComponentChildren } from "preact";
import type { Asked } from "./answers";

export function Panel({ title, note, children }: { title: string; note?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      {children}
      {note && <p class="note">{note}</p>}
    </section>
  );
}

/** Shows what was asked for once it is there, and why it is not. */
export function Shown<T>({ asked, children }: { asked: Asked<T>; children: (answer: T) => ComponentChildren }) {
  const answer = asked.answer.value;
  return (
    <>
      {asked.problem.value && <p class="problem" role="alert">{asked.problem.value}</p>}
      {answer === undefined ? !asked.problem.value && <p class="empty">Loading…</p> : children(answer)}
    </>
  );
}

/** One number, large, with what it counts; it leads to what it is made of. */
export function Figure({ value, of, href, tone }: { value: string; of: string; href?: string; tone?: "good" | "bad" | "warn" | undefined }) {
  const inside = (
    <>
      <strong>{value}</strong>
      <span>{of}</span>
    </>
  );
  const classes = `figure ${tone ?? ""}`;
  return href ? <a class={classes} href={href}>{inside}</a> : <div class={classes}>{inside}</div>;
}

const TONES: Record<string, string> = {
  succeeded: "good", running: "busy", queued: "calm", pending: "calm", held: "warn", locked: "calm", failed: "bad", lost: "bad", cancelled: "calm",
  idle: "calm", booting: "warn", unknown: "warn", shutdown: "calm", gone: "calm", hold: "warn", drain: "warn",
};

/** A state: its word, and a mark that tells it by more than its colour. */
export function State({ word }: { word: string }) {
  const tone = TONES[word] ?? "calm";
  return <span class={`state ${tone}`}>{word}</span>;
}
