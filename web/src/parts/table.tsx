// A table of any length: only the rows that are in view are in the page, and pages are asked for
// when one comes near the end of those that are known, or back to those that were forgotten.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Paged } from "./answers";
import { plural } from "./format";

export interface Column<T> {
  readonly name: string;
  readonly cell: (item: T) => ComponentChildren;
  /** Numbers are set to the right. */
  readonly isNumber?: boolean;
  /** Left out where the screen is narrow. */
  readonly isSpare?: boolean;
  /** Sentences take more room than names. */
  readonly isWide?: boolean;
}

const ROW_PX = 36;
const AHEAD_ROWS = 20;
const NEAR_END_ROWS = 60;

export function Table<T>({
  label,
  list,
  columns,
  idOf,
  empty,
}: {
  label: string;
  list: Paged<T>;
  columns: readonly Column<T>[];
  idOf: (item: T) => string;
  empty: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const first = useSignal(0);
  const visible = useSignal(40);
  const items = list.items.value;
  const before = list.before.value;
  const known = before + items.length + list.behind.value;
  const from = Math.max(0, Math.min(first.value, known) - AHEAD_ROWS);
  const until = Math.min(known, first.value + visible.value + AHEAD_ROWS);
  const drawn = items.slice(Math.max(0, from - before), Math.max(0, until - before));
  const begin = drawn.length === 0 ? from : Math.max(from, before);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const look = (): void => {
      first.value = Math.floor(element.scrollTop / ROW_PX);
      visible.value = Math.ceil(element.clientHeight / ROW_PX) + 1;
    };
    element.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      observer.disconnect();
    };
  }, []);
  const isLoading = list.loading.value;
  useEffect(() => {
    if (!isLoading && !list.problem.value) list.need(from, until + NEAR_END_ROWS);
  }, [from, until, known, isLoading]);
  useEffect(() => {
    // Who looks at the newest sees what is new; who reads further down is not moved.
    if (list.fresh.value === 0 || first.value > 0 || isLoading) return;
    const timer = setTimeout(list.again, 1000);
    return () => clearTimeout(timer);
  }, [list.fresh.value > 0, first.value > 0, isLoading]);

  return (
    <div class="table">
      {list.problem.value && <p class="problem" role="alert">{list.problem.value}</p>}
      {list.fresh.value > 0 && first.value > 0 && (
        <button class="fresh" type="button" onClick={() => { box.current?.scrollTo(0, 0); list.again(); }}>
          {plural(list.fresh.value, "change")} above: show
        </button>
      )}
      <div class="scroll" ref={box} tabIndex={0} role="region" aria-label={label}>
        <table aria-rowcount={list.more.value ? -1 : known + 1}>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column.name} scope="col" class={classOf(column)}>{column.name}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            <Gap rows={begin} />
            {drawn.map((item, index) => (
              <tr key={idOf(item)} class={(begin + index) % 2 === 0 ? "odd" : ""} aria-rowindex={begin + index + 2}>
                {columns.map((column) => (
                  <td key={column.name} class={classOf(column)}>{column.cell(item)}</td>
                ))}
              </tr>
            ))}
            <Gap rows={known - begin - drawn.length} />
          </tbody>
        </table>
        {known === 0 && !isLoading && !list.problem.value && <p class="empty">{empty}</p>}
      </div>
      <p class="foot" role="status">
        {isLoading ? "Loading\u2026" : `${plural(known, "row")}${list.more.value ? " so far" : ""}`}
      </p>
    </div>
  );
}

/** Takes the place of rows that are not in the page. */
function Gap({ rows }: { rows: number }) {
  return rows > 0 ? <tr aria-hidden="true"><td class="gap" style={{ height: `${rows * ROW_PX}px` }} /></tr> : null;
}

function classOf<T>(column: Column<T>): string {
  return [column.isNumber ? "number" : "", column.isSpare ? "spare" : "", column.isWide ? "wide" : ""].filter(Boolean).join(" ");
}
