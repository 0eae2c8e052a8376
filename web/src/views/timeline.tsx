// Instances over time: a row for each, with what it was, and the attempts on it, to scale. Only the
// rows in view are drawn; the same is in a table for who cannot see it.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Paged } from "../parts/answers";
import { nowS } from "../parts/clock";
import { scheme } from "../parts/colours";
import { count, duration, localTime, percent, plural, usd } from "../parts/format";
import type { Bar, Row, Spot } from "../parts/lanes";
import { type Column, Table } from "../parts/table";
import { AXIS_PX, BANDS, BARS, draw, inView, ROW_PX, type Scene, spotAt, wordOf } from "../parts/timeline_canvas";
import { type AskedRows, useRows } from "../parts/timeline_rows";
import { link, place, setQuery } from "../router";

const WINDOWS = [["15 min", 900], ["1 h", 3600], ["6 h", 21_600], ["1 d", 86_400], ["7 d", 604_800]] as const;
const USUAL_S = 3600;
const LEAST_S = 10;
const MOST_S = 604_800;
const PAN = 0.25;
/** Where the drawing is narrower, the ends of ids are shown: their beginnings are alike. */
const NARROW_PX = 500;
const ID_END = 9;
const MEANS: Record<string, string> = {
  pending: "asked for", room: "at work", empty: "empty: costs and does nothing", unwanted: "not wanted any more",
};

interface Window {
  readonly spanS: number;
  /** When it ends, in seconds since the epoch; null for now. */
  readonly endS: number | null;
}

function windowOf(query: Readonly<Record<string, string>>): Window {
  const [span, end] = [Number(query["span"]), Number(query["end"])];
  return { spanS: span > 0 ? Math.max(LEAST_S, Math.min(MOST_S, span)) : USUAL_S, endS: end > 0 ? end : null };
}

function show({ spanS, endS }: Window): void {
  const span = Math.round(Math.max(LEAST_S, Math.min(MOST_S, spanS)));
  const isNow = endS === null || endS >= nowS.value;
  setQuery({ span: String(span), end: isNow ? "" : String(Math.round(endS)) });
}

function zoom(by: number): void {
  const { spanS, endS } = windowOf(place.value.query);
  // What goes on to now still does; else the middle stays where it is.
  show({ spanS: spanS * by, endS: endS === null ? null : endS - spanS / 2 + (spanS * by) / 2 });
}

function pan(by: number): void {
  const { spanS, endS } = windowOf(place.value.query);
  show({ spanS, endS: (endS ?? nowS.value) + by * spanS });
}

export function Timeline() {
  const { query } = place.value;
  const { spanS, endS } = windowOf(query);
  const instance = query["instance"] ?? "";
  const asked = useRows(spanS, endS, instance);
  const rows = asked.rows.value;
  const until = endS ?? nowS.value;
  return (
    <>
      <h1>Timeline</h1>
      <div class="controls" role="group" aria-label="Window">
        {WINDOWS.map(([name, length]) => (
          <button key={name} type="button" aria-pressed={spanS === length} onClick={() => show({ spanS: length, endS })}>{name}</button>
        ))}
        <button type="button" onClick={() => zoom(0.5)}>Zoom in</button>
        <button type="button" onClick={() => zoom(2)}>Zoom out</button>
        <button type="button" onClick={() => pan(-PAN)}>Earlier</button>
        <button type="button" onClick={() => pan(PAN)} disabled={endS === null}>Later</button>
        <button type="button" onClick={() => show({ spanS, endS: null })} disabled={endS === null}>Now</button>
        {instance && <a href={link(["timeline"], { span: String(spanS) })}>All instances</a>}
      </div>
      {asked.problem.value && <p class="problem" role="alert">{asked.problem.value}</p>}
      <Drawing key={instance} rows={rows} fromS={until - spanS} toS={until + (endS === null ? spanS * 0.02 : 0)} isLoading={asked.loading.value} />
      <p class="foot">
        {localTime(new Date((until - spanS) * 1000).toISOString())} to {endS === null ? "now" : localTime(new Date(until * 1000).toISOString())}:{" "}
        {plural(rows.length, "instance")}, {plural(rows.reduce((sum, each) => sum + each.instance.attempts.length, 0), "attempt")}.
        {asked.more.value && " There were more: choose a shorter window to see them."}
        {leftOut(rows) > 0 && ` ${count(leftOut(rows))} earlier attempts are left out: look at one instance, or at a shorter window.`}
      </p>
      <Legend />
      <details>
        <summary>As a table</summary>
        <InTable asked={asked} />
      </details>
    </>
  );
}

function leftOut(rows: readonly Row[]): number {
  return rows.reduce((sum, each) => sum + each.instance.attempts_left_out, 0);
}

function Legend() {
  const swatch = ([name, tone, hatched]: readonly [string, string, boolean]) => (
    <span key={name} class="legend"><span class={`tone ${tone} ${hatched ? "hatched" : ""}`} /> {MEANS[name] ?? name}</span>
  );
  return (
    <div class="note">
      <p class="note">Instances, the thin band: {BANDS.map(swatch)}</p>
      <p class="note">Attempts, as high as their share of the instance: {BARS.map(swatch)}</p>
      <p class="note">
        Keys: up and down choose an instance, left and right what ran on it, Enter opens it; + and − zoom, Shift with left
        and right goes earlier and later, 0 goes to now.
      </p>
    </div>
  );
}

function Drawing({ rows, fromS, toS, isLoading }: { rows: readonly Row[]; fromS: number; toS: number; isLoading: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const topPx = useSignal(0);
  const size = useSignal<readonly [number, number]>([600, 400]);
  const pointed = useSignal<Spot | null>(null);
  const chosen = useSignal<Spot | null>(null);
  const heightPx = Math.min(size.value[1], AXIS_PX + Math.max(rows.length, 1) * ROW_PX);
  const scene: Scene = {
    rows, fromS, toS, nowS: nowS.value, topPx: topPx.value, widthPx: size.value[0], heightPx, chosen: pointed.value ?? chosen.value,
  };
  useEffect(() => {
    const element = box.current;
    const pane = canvas.current?.parentElement;
    if (!element || !pane) return;
    let frame = 0;
    const look = (): void => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => { topPx.value = element.scrollTop; });
    };
    const observer = new ResizeObserver(() => { size.value = [pane.clientWidth, element.clientHeight]; });
    element.addEventListener("scroll", look, { passive: true });
    observer.observe(element);
    observer.observe(pane);
    return () => {
      cancelAnimationFrame(frame);
      element.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, []);
  useEffect(() => {
    if (canvas.current) canvas.current.dataset["bars"] = String(draw(canvas.current, scene));
  });
  void scheme.value;
  const [first, end] = inView(scene);
  const spot = pointed.value ?? chosen.value;
  const choose = (next: Spot | null): void => {
    chosen.value = next;
    pointed.value = null;
    const index = rows.findIndex((each) => each.instance.id === next?.instance);
    if (index >= 0) keepInView(box.current, index);
  };
  return (
    <>
      <p class="told" role="status">{spot ? <Told rows={rows} spot={spot} /> : <span class="quiet">Point at what is drawn, or choose it with the keys.</span>}</p>
      <div
        class="timeline"
        ref={box}
        tabIndex={0}
        role="application"
        aria-label={`Timeline of ${plural(rows.length, "instance")}; the same is in the table below`}
        onKeyDown={(event) => onKey(event, rows, chosen.value, choose)}
      >
        <div class="extent" style={{ height: `${AXIS_PX + rows.length * ROW_PX}px` }}>
          <div class="pane" style={{ height: `${heightPx}px` }}>
            <div class="names">
              {rows.slice(first, end).map((row, index) => (
                <a
                  key={row.instance.id}
                  href={link(["instances", row.instance.id])}
                  title={row.instance.id}
                  tabIndex={-1}
                  style={{ top: `${AXIS_PX + (first + index) * ROW_PX - topPx.value}px` }}
                >
                  {size.value[0] < NARROW_PX ? `…${row.instance.id.slice(-ID_END)}` : row.instance.id}
                  <span>{row.instance.instance_type}</span>
                </a>
              ))}
            </div>
            <div class="drawn">
              <canvas
                ref={canvas}
                aria-hidden="true"
                onMouseMove={(event) => { pointed.value = spotAt(scene, event.offsetX, event.offsetY); }}
                onMouseLeave={() => { pointed.value = null; }}
                onClick={(event) => { openSpot(rows, spotAt(scene, event.offsetX, event.offsetY)); }}
              />
            </div>
          </div>
        </div>
      </div>
      {rows.length === 0 && <p class="empty">{isLoading ? "Loading…" : "There was no instance in this time."}</p>}
    </>
  );
}

function keepInView(box: HTMLElement | null, index: number): void {
  if (!box) return;
  const [top, seen] = [index * ROW_PX, box.clientHeight - AXIS_PX - ROW_PX];
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top > box.scrollTop + seen) box.scrollTop = top - seen;
}

function barOf(rows: readonly Row[], spot: Spot | null): Bar | undefined {
  return rows.find((each) => each.instance.id === spot?.instance)?.bars.find((bar) => bar.attempt.attempt === spot?.attempt);
}

/** Return the path of the view of what is at a spot. */
function pathOf(rows: readonly Row[], spot: Spot): readonly string[] {
  const container = barOf(rows, spot)?.attempt.container;
  return container ? ["containers", container] : ["instances", spot.instance];
}

function openSpot(rows: readonly Row[], spot: Spot | null): void {
  if (spot) location.hash = link(pathOf(rows, spot));
}

function onKey(event: KeyboardEvent, rows: readonly Row[], chosen: Spot | null, choose: (next: Spot | null) => void): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const row = rows.findIndex((each) => each.instance.id === chosen?.instance);
  const acts: Record<string, () => void> = {
    ArrowDown: () => choose(spotOf(rows[Math.min(rows.length - 1, row + 1)])),
    ArrowUp: () => choose(spotOf(rows[Math.max(0, row - 1)])),
    ArrowRight: () => (event.shiftKey ? pan(PAN) : choose(beside(rows[Math.max(0, row)], chosen, 1))),
    ArrowLeft: () => (event.shiftKey ? pan(-PAN) : choose(beside(rows[Math.max(0, row)], chosen, -1))),
    Enter: () => openSpot(rows, chosen),
    Escape: () => choose(null),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    "0": () => show({ ...windowOf(place.value.query), endS: null }),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function spotOf(row: Row | undefined): Spot | null {
  return row ? { instance: row.instance.id, attempt: null } : null;
}

/** Return the attempt of a row that begins next, or before; at either end the instance itself. */
function beside(row: Row | undefined, chosen: Spot | null, step: 1 | -1): Spot | null {
  if (!row) return null;
  const at = row.bars.findIndex((bar) => bar.attempt.attempt === chosen?.attempt);
  const next = at < 0 && step < 0 ? row.bars.length - 1 : at + step;
  return { instance: row.instance.id, attempt: row.bars[next]?.attempt.attempt ?? null };
}

/** What is at a spot, in a sentence that leads to it. */
function Told({ rows, spot }: { rows: readonly Row[]; spot: Spot }) {
  const row = rows.find((each) => each.instance.id === spot.instance);
  if (!row) return null;
  const bar = barOf(rows, spot);
  return <><a href={link(pathOf(rows, spot))}>{bar ? nameOf(bar) : row.instance.id}</a> {bar ? attemptText(row, bar) : instanceText(row)}</>;
}

function nameOf({ attempt }: Bar): string {
  const element = attempt.array_index === null ? "" : `[${attempt.array_index}]`;
  return [attempt.name || attempt.container || "what nobody knows", `${attempt.task ?? ""}${element}`].filter(Boolean).join(" ");
}

function attemptText(row: Row, bar: Bar): ComponentChildren {
  const { attempt } = bar;
  const length = duration(Math.min(bar.toS, nowS.value) - bar.fromS);
  const whose = [attempt.user && `of ${attempt.user}`, attempt.project && `project ${attempt.project}`].filter(Boolean).join(", ");
  return `${whose}: ${percent(attempt.share)} of ${row.instance.id}, ${localTime(attempt.from)} to ${attempt.to ? localTime(attempt.to) : "now"} (${length}), ${wordOf(bar)}`;
}

function instanceText({ instance, bands }: Row): string {
  const last = bands.at(-1);
  const states = last ? `; ${last.toS === Infinity ? "is" : "was last"} ${last.state} (${duration(Math.min(last.toS, nowS.value) - last.fromS)})` : "";
  const there = `${localTime(instance.created_at)} to ${instance.gone_at ? localTime(instance.gone_at) : "now"}`;
  return `${instance.instance_type}, ${usd(Number(instance.price_usd_per_hour))} an hour, ${there}, ${plural(instance.attempts.length, "attempt")}${states}`;
}

const COLUMNS: readonly Column<Row>[] = [
  { name: "Instance", cell: ({ instance }) => <a href={link(["instances", instance.id])}>{instance.id}</a> },
  { name: "Type", isSpare: true, cell: ({ instance }) => instance.instance_type },
  { name: "Created", cell: ({ instance }) => localTime(instance.created_at) },
  { name: "Gone", cell: ({ instance }) => (instance.gone_at ? localTime(instance.gone_at) : "is there") },
  { name: "What it was", cell: (row) => statesText(row) },
  { name: "Attempts", isNumber: true, cell: ({ instance }) => <a href={link(["containers"], { instance: instance.id })}>{count(instance.attempts.length)}</a> },
];

function statesText({ bands }: Row): string {
  const lengths = new Map<string, number>();
  for (const { state, fromS, toS } of bands) lengths.set(state, (lengths.get(state) ?? 0) + Math.min(toS, nowS.value) - fromS);
  return [...lengths].map(([state, length]) => `${state} ${duration(length)}`).join(", ");
}

function InTable({ asked }: { asked: AskedRows }) {
  const none = useSignal(false);
  const zero = useSignal(0);
  const list: Paged<Row> = {
    items: asked.rows, before: zero, behind: zero, more: none, problem: asked.problem, loading: none, fresh: zero, need: () => {}, again: () => {},
  };
  return <Table label="Timeline as a table" list={list} columns={COLUMNS} idOf={(row) => row.instance.id} empty="There was no instance in this time." />;
}
