// What views show of the server, kept up to date: one answer, or a list that comes in pages.
import { type Signal, signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { get, type Query, Refusal, withQuery } from "../api";
import { type Change, follow, missed } from "../live";

export interface Asked<T> {
  readonly answer: Signal<T | undefined>;
  readonly problem: Signal<string>;
  /** When it was answered last, in milliseconds since the epoch; 0 for never. */
  readonly at: Signal<number>;
  readonly again: () => void;
}

const LEAST_WAIT_MS = 1000;

/**
 * Ask for something, and again when changes of these kinds come (at most once a second), or every
 * `eachS` seconds where no event tells.
 */
export function useAnswer<T>(path: string, query: Query = {}, renewal: Renewal = {}): Asked<T> {
  const target = withQuery(path, query);
  return useLoaded(target, (abort) => get<T>(target, {}, abort), renewal);
}

export interface Renewal {
  readonly on?: (change: Change) => boolean;
  readonly eachS?: number;
}

/** The same for what takes more than one request: `target` says what is asked for. */
export function useLoaded<T>(
  target: string,
  load: (abort: AbortSignal) => Promise<T>,
  { on, eachS }: Renewal = {},
): Asked<T> {
  const asked = useMemo(
    () => ({ answer: signal<T | undefined>(undefined), problem: signal(""), at: signal(0) }),
    [target],
  );
  const control = useMemo(() => ({ again: () => {} }), [target]);
  useEffect(() => {
    let stopped = false;
    let running = false;
    let wanted = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const abort = new AbortController();
    const run = async (): Promise<void> => {
      if (running) {
        wanted = true;
        return;
      }
      running = true;
      try {
        asked.answer.value = await load(abort.signal);
        asked.problem.value = "";
        asked.at.value = Date.now();
      } catch (error) {
        if (stopped) return;
        if (!(error instanceof Refusal)) throw error;
        asked.problem.value = error.whole;
      } finally {
        running = false;
      }
      if (wanted && !stopped) {
        wanted = false;
        later();
      }
    };
    const later = (): void => {
      if (timer !== undefined) return;
      timer = setTimeout(() => {
        timer = undefined;
        void run();
      }, LEAST_WAIT_MS);
    };
    control.again = () => void run();
    void run();
    const unfollow = on ? follow((changes) => changes.some(on) && later()) : () => {};
    const unmissed = missed.subscribe((times) => times > 0 && later());
    const beat = eachS === undefined ? undefined : setInterval(() => void run(), eachS * 1000);
    return () => {
      stopped = true;
      abort.abort();
      unfollow();
      unmissed();
      clearTimeout(timer);
      clearInterval(beat);
    };
  }, [target, eachS]);
  return { ...asked, again: () => control.again() };
}

export interface Paged<T> {
  readonly items: Signal<readonly T[]>;
  /** Whether there are more behind these. */
  readonly more: Signal<boolean>;
  readonly problem: Signal<string>;
  readonly loading: Signal<boolean>;
  /** How many came to be since the first page was asked for, as far as changes told. */
  readonly fresh: Signal<number>;
  readonly loadMore: () => void;
  readonly again: () => void;
}

interface PagedAnswer<T> {
  items: T[];
  next_cursor: string | null;
}

/**
 * List things, page by page; what changes is replaced in place. `idOf` says which is which and
 * `kind` which changes are of these.
 */
export function usePages<T>(
  path: string,
  query: Query,
  { idOf, kind, pageSize = 100 }: { idOf: (item: T) => string; kind?: string; pageSize?: number },
): Paged<T> {
  const target = withQuery(path, { ...query, limit: pageSize });
  const list = useMemo(
    () => ({
      items: signal<readonly T[]>([]),
      more: signal(true),
      problem: signal(""),
      loading: signal(false),
      fresh: signal(0),
    }),
    [target],
  );
  const control = useMemo(() => ({ loadMore: () => {}, again: () => {} }), [target]);
  useEffect(() => {
    let cursor = "";
    let round = 0;
    let stopped = false;
    const abort = new AbortController();
    const load = async (anew: boolean): Promise<void> => {
      if (list.loading.value && !anew) return;
      const mine = anew ? ++round : round;
      list.loading.value = true;
      try {
        const answer = await get<PagedAnswer<T>>(path, { ...query, limit: pageSize, cursor: anew ? "" : cursor }, abort.signal);
        if (stopped || mine !== round) return;
        list.items.value = anew ? answer.items : [...list.items.value, ...answer.items];
        cursor = answer.next_cursor ?? "";
        list.more.value = answer.next_cursor !== null;
        list.problem.value = "";
        if (anew) list.fresh.value = 0;
      } catch (error) {
        if (stopped) return;
        if (!(error instanceof Refusal)) throw error;
        list.problem.value = error.whole;
        list.more.value = false;
      } finally {
        if (mine === round) list.loading.value = false;
      }
    };
    control.loadMore = () => void (list.more.value && load(false));
    control.again = () => void load(true);
    void load(true);
    const merge = (changes: readonly Change[]): void => {
      const told = new Map(changes.filter((each) => each.kind === kind).map((each) => [each.id, each.data]));
      if (told.size === 0) return;
      let changed = false;
      const items = list.items.value.map((item) => {
        const data = told.get(idOf(item));
        if (data === undefined) return item;
        told.delete(idOf(item));
        changed = true;
        return { ...item, ...data };
      });
      if (changed) list.items.value = items;
      list.fresh.value += told.size;
    };
    const unfollow = kind ? follow(merge) : () => {};
    const unmissed = missed.subscribe((times) => times > 0 && void load(true));
    return () => {
      stopped = true;
      abort.abort();
      unfollow();
      unmissed();
    };
  }, [target]);
  return { ...list, loadMore: () => control.loadMore(), again: () => control.again() };
}
