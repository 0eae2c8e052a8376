// Instances over time as rows to draw: what each was from when to when, and the attempts on it, each
// in a lane as high as its share, so that what lies above each other ran at the same time. An
// attempt takes the lowest place that is free for all of its time, as a container takes room.
import type { Answers } from "../api";

export type TimelineInstance = Answers["TimelineInstanceAnswer"];
export type TimelineAttempt = Answers["TimelineAttemptAnswer"];

/** From when to when, in seconds since the epoch; Infinity for what goes on. */
export interface Span {
  readonly fromS: number;
  readonly toS: number;
}

export interface Band extends Span {
  readonly state: string;
}

export interface Bar extends Span {
  readonly attempt: TimelineAttempt;
  /** Where it begins, and how high it is, of a height of 1. */
  readonly bottom: number;
  readonly height: number;
}

export interface Row {
  readonly instance: TimelineInstance;
  readonly bands: readonly Band[];
  readonly bars: readonly Bar[];
}

/** What one points at or has chosen: a row, and a bar of it or none. */
export interface Spot {
  readonly instance: string;
  readonly attempt: string | null;
}

const LEAST = 0.02;
const ROUNDING = 1e-9;

/** Return an instance as a row. */
export function rowOf(instance: TimelineInstance): Row {
  return {
    instance,
    bands: instance.states.map((each) => ({ state: each.state, ...spanOf(each) })),
    bars: stacked(instance.attempts),
  };
}

function spanOf({ from, to }: { from: string | null; to: string | null }): Span {
  return { fromS: from ? Date.parse(from) / 1000 : 0, toS: to ? Date.parse(to) / 1000 : Infinity };
}

function stacked(attempts: readonly TimelineAttempt[]): Bar[] {
  const ordered = attempts
    .map((attempt) => ({ attempt, ...spanOf(attempt) }))
    .sort((one, other) => one.fromS - other.fromS || one.attempt.attempt.localeCompare(other.attempt.attempt));
  const bars: Bar[] = [];
  let open: Bar[] = [];
  let top = 1;
  for (const each of ordered) {
    open = open.filter((bar) => bar.toS > each.fromS);
    const height = Math.max(LEAST, each.attempt.share);
    const bottom = lowestFree(open, height);
    const bar = { ...each, bottom, height };
    top = Math.max(top, bottom + height);
    bars.push(bar);
    open = [...open, bar].sort((one, other) => one.bottom - other.bottom);
  }
  // Shares of the memory of some and the processors of others may add up to more than all.
  return top > 1 + ROUNDING ? bars.map((bar) => ({ ...bar, bottom: bar.bottom / top, height: bar.height / top })) : bars;
}

/** Return the lowest place for a height beside those that are open, which come from below. */
function lowestFree(open: readonly Bar[], height: number): number {
  let bottom = 0;
  for (const bar of open) {
    if (bar.bottom - bottom >= height - ROUNDING) return bottom;
    bottom = Math.max(bottom, bar.bottom + bar.height);
  }
  return bottom;
}
