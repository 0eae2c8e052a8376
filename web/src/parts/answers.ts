// What views show of the server, kept up to date: one answer, or a list that comes in pages.
import { batch, type Signal, signal } from "@preact/signals";
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
  /** Those of the window: of a long list only the pages around what is looked at are kept. */
  readonly items: Signal<readonly T[]>;
  /** How many are known to be before the window, and behind it. */
  readonly before: Signal<number>;
  readonly behind: Signal<number>;
  /** Whether there are more behind all that is known. */
  readonly more: Signal<boolean>;
  readonly problem: Signal<string>;
  readonly loading: Signal<boolean>;
  /** How many came to be since the first page was asked for, as far as changes told. */
  readonly fresh: Signal<number>;
  /** See that the rows from one number until another are in the window. */
  readonly need: (from: number, until: number) => void;
  readonly again: () => void;
}

interface PagedAnswer<T> {
  items: T[];
  next_cursor: string | null;
}

/** A page that was read once; what was in it is forgotten when it is far from what is looked at. */
interface Page<T> {
  readonly cursor: string;
  readonly count: number;
  readonly items: readonly T[] | null;
}

const MOST_PAGES = 8;

/** Keep the pages around one; those that are kept follow one another. */
function around<T>(pages: readonly Page<T>[], middle: number): Page<T>[] {
  let first = middle;
  let last = middle;
  const isKept = (index: number): boolean => (pages[index]?.items ?? null) !== null;
  while (last - first + 1 < MOST_PAGES && (isKept(first - 1) || isKept(last + 1))) {
    const isBackNearer = last - middle <= middle - first;
    if (isKept(last + 1) && (isBackNearer || !isKept(first - 1))) last += 1;
    else first -= 1;
  }
  return pages.map((page, index) => (index < first || index > last ? { ...page, items: null } : page));
}

/** Return the page that has a row, one behind the last for a row that no known page has. */
function pageOf<T>(pages: readonly Page<T>[], row: number): number {
  let end = 0;
  for (const [index, page] of pages.entries()) {
    end += page.count;
    if (row < end) return index;
  }
  return pages.length;
}

const sum = <T>(pages: readonly Page<T>[]): number => pages.reduce((all, page) => all + page.count, 0);

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
      before: signal(0),
      behind: signal(0),
      more: signal(true),
      problem: signal(""),
      loading: signal(false),
      fresh: signal(0),
    }),
    [target],
  );
  const control = useMemo(() => ({ need: (_from: number, _until: number) => {}, again: () => {} }), [target]);
  useEffect(() => {
    let pages: Page<T>[] = [];
    let next = "";
    let round = 0;
    let stopped = false;
    // What changed while a page was on its way, which may have been read before that.
    let meanwhile = new Map<string, Change["data"]>();
    const abort = new AbortController();
    const put = (): void => {
      const first = pages.findIndex((page) => page.items !== null);
      const kept = pages.filter((page) => page.items !== null);
      batch(() => {
        list.items.value = kept.flatMap((page) => page.items ?? []);
        list.before.value = sum(pages.slice(0, Math.max(first, 0)));
        list.behind.value = sum(pages) - list.before.value - sum(kept);
      });
    };
    const merged = (items: readonly T[], told: ReadonlyMap<string, Change["data"]>): readonly T[] =>
      items.some((item) => told.has(idOf(item))) ? items.map((item) => ({ ...item, ...told.get(idOf(item)) })) : items;
    const take = (index: number, answer: PagedAnswer<T>): void => {
      // A page that is read again may reach into the next one, as some of its own may be gone.
      const others = new Set(pages.flatMap((page, other) => (other === index ? [] : (page.items ?? []))).map(idOf));
      const items = merged(answer.items.filter((item) => !others.has(idOf(item))), meanwhile);
      const isLast = index === pages.length;
      const page = { cursor: isLast ? next : (pages[index]?.cursor ?? ""), count: items.length, items };
      if (isLast) {
        next = answer.next_cursor ?? "";
        list.more.value = answer.next_cursor !== null;
      }
      pages = around([...pages.slice(0, index), page, ...pages.slice(index + 1)], index);
      put();
    };
    const load = async (index: number, anew = false): Promise<void> => {
      if (list.loading.value && !anew) return;
      const mine = anew ? ++round : round;
      const known = list.fresh.value;
      list.loading.value = true;
      meanwhile = new Map();
      try {
        const cursor = anew ? "" : index === pages.length ? next : (pages[index]?.cursor ?? "");
        const answer = await get<PagedAnswer<T>>(path, { ...query, limit: pageSize, cursor }, abort.signal);
        if (stopped || mine !== round) return;
        if (anew) {
          [pages, next] = [[], ""];
          list.fresh.value = Math.max(0, list.fresh.value - known);
        }
        take(index, answer);
        list.problem.value = "";
      } catch (error) {
        if (stopped) return;
        if (!(error instanceof Refusal)) throw error;
        list.problem.value = error.whole;
        list.more.value = false;
      } finally {
        if (mine === round) list.loading.value = false;
      }
    };
    control.need = (from, until) => {
      const last = Math.min(pageOf(pages, until), list.more.value ? pages.length : pages.length - 1);
      for (let index = Math.max(0, pageOf(pages, from)); index <= last; index += 1) {
        if ((pages[index]?.items ?? null) === null) return void load(index);
      }
    };
    control.again = () => void load(0, true);
    void load(0, true);
    const merge = (changes: readonly Change[]): void => {
      const told = new Map(changes.filter((each) => each.kind === kind).map((each) => [each.id, each.data]));
      if (told.size === 0) return;
      if (list.loading.value) for (const [id, data] of told) meanwhile.set(id, data);
      const old = pages;
      pages = pages.map((page) => {
        const items = page.items && merged(page.items, told);
        return items === page.items ? page : { ...page, items };
      });
      if (pages.some((page, index) => page !== old[index])) put();
      const shown = list.items.value.filter((item) => told.has(idOf(item))).length;
      list.fresh.value += told.size - shown;
    };
    const unfollow = kind ? follow(merge) : () => {};
    const unmissed = missed.subscribe((times) => times > 0 && void load(0, true));
    return () => {
      stopped = true;
      abort.abort();
      unfollow();
      unmissed();
    };
  }, [target]);
  return { ...list, need: (from, until) => control.need(from, until), again: () => control.again() };
}
