// How far many containers are: one bar, in the order in which they pass through their states.
import type { Answers } from "../api";
import { count } from "./format";

type Counts = Answers["CountsAnswer"];

const PARTS = ["succeeded", "failed", "cancelled", "running", "locked", "queued"] as const;

/** Return what the counts say, in words. */
export function told(counts: Counts): string {
  const waiting = counts.queued + counts.locked;
  const parts = [
    [counts.succeeded, "succeeded"],
    [counts.failed, "failed"],
    [counts.cancelled, "cancelled"],
    [counts.running, "running"],
    [waiting, "waiting"],
  ] as const;
  return parts.filter(([amount]) => amount > 0).map(([amount, word]) => `${count(amount)} ${word}`).join(", ") || "nothing yet";
}

export function Progress({ counts }: { counts: Counts }) {
  const total = Math.max(counts.total, 1);
  return (
    <div class="progress">
      <div class="whole" role="img" aria-label={`${told(counts)}, of ${count(counts.total)}`}>
        {PARTS.filter((part) => counts[part] > 0).map((part) => (
          <span key={part} class={`part ${part}`} style={{ width: `${(counts[part] / total) * 100}%` }} />
        ))}
      </div>
      <span class="quiet">{told(counts)}</span>
    </div>
  );
}
