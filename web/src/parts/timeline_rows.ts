// Asks for the instances of a window, page by page, and again for as long as the window ends now.
import { type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { type Answers, get, Refusal } from "../api";
import { type Row, rowOf } from "./lanes";

type Answer = Answers["TimelineAnswer"];

const PAGE = 200;
const MOST = 2000;
const LEAST_WAIT_MS = 2000;
/** How much longer one waits than asking took: what is large is asked for less often. */
const PAUSE = 10;
const SETTLED_MS = 200;

export interface AskedRows {
  readonly rows: Signal<readonly Row[]>;
  readonly problem: Signal<string>;
  readonly loading: Signal<boolean>;
  /** Whether there were more than are told. */
  readonly more: Signal<boolean>;
}

/**
 * Ask for what was there for `spanS` seconds up to `endS`, in seconds since the epoch; null is now,
 * whatever that is. `instance` is the only one that is asked for, "" for all.
 */
export function useRows(spanS: number, endS: number | null, instance: string): AskedRows {
  const asked = useMemo(
    () => ({ rows: signal<readonly Row[]>([]), problem: signal(""), loading: signal(true), more: signal(false) }),
    [instance],
  );
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async (): Promise<void> => {
      const began = performance.now();
      asked.loading.value = true;
      try {
        await load(asked, spanS, endS ?? Date.now() / 1000, instance, abort.signal);
        asked.problem.value = "";
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof Refusal)) throw error;
        asked.problem.value = error.whole;
      }
      asked.loading.value = false;
      const wait = Math.max(LEAST_WAIT_MS, PAUSE * (performance.now() - began));
      if (endS === null) timer = setTimeout(() => void run(), wait);
    };
    // Who turns from window to window asks for the last of them alone.
    timer = setTimeout(() => void run(), asked.rows.value.length > 0 ? SETTLED_MS : 0);
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [spanS, endS, instance]);
  return asked;
}

async function load(asked: AskedRows, spanS: number, endS: number, instance: string, abort: AbortSignal): Promise<void> {
  const window = { from: momentOf(endS - spanS), to: momentOf(endS), instance };
  const isFirst = asked.rows.value.length === 0;
  const found: Row[] = [];
  let cursor = "";
  do {
    const page = await get<Answer>("v1/timeline", { ...window, limit: PAGE, cursor }, abort);
    found.push(...page.items.map(rowOf));
    cursor = page.next_cursor ?? "";
    if (isFirst) asked.rows.value = [...found];
  } while (cursor && found.length < MOST);
  asked.rows.value = found;
  asked.more.value = cursor !== "";
}

function momentOf(atS: number): string {
  return new Date(Math.round(atS * 1000)).toISOString();
}
