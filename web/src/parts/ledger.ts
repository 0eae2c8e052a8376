// Questions to the ledger, with all pages of their rows, and what rows come to.
import { computed } from "@preact/signals";
import { type Answers, get, type Query } from "../api";
import { type Asked, useLoaded } from "./answers";
import { link } from "../router";
import { nowS } from "./clock";

export type Cost = Answers["CostAnswer"];
export type CostRow = Answers["CostRowAnswer"];
export type Amounts = Answers["CostAmounts"];

/** How long a time is that is asked for, and in which zone its days begin. */
export interface Span {
  /** Days or months of the zone, or times; `to` is "" for now. */
  readonly from: string;
  readonly to: string;
  readonly tz: string;
}

/** Rows of a question, and whether these are all. */
export interface Ledger extends Omit<Cost, "items" | "next_cursor"> {
  readonly items: readonly CostRow[];
  readonly isWhole: boolean;
  readonly question: Query;
}

const PAGE_ROWS = 1000;
const MOST_PAGES = 5;
const EACH_S = 60;

/** Ask the ledger, each minute anew; more than 5,000 rows are not fetched, and that is told. */
export function useLedger(span: Span, question: Query): Asked<Ledger> {
  const whole: Query = { ...question, from: span.from, to: span.to, tz: span.tz };
  return useLoaded(`v1/cost ${JSON.stringify(whole)}`, (abort) => load(whole, abort), { eachS: EACH_S });
}

async function load(question: Query, abort: AbortSignal): Promise<Ledger> {
  const items: CostRow[] = [];
  let cursor = "";
  for (let page = 0; ; page += 1) {
    const answer = await get<Cost>("v1/cost", { ...question, limit: PAGE_ROWS, cursor }, abort);
    items.push(...answer.items);
    cursor = answer.next_cursor ?? "";
    if (!cursor || page + 1 === MOST_PAGES) return { ...answer, items, isWhole: !cursor, question };
  }
}

export type Measure = (amounts: Amounts) => number;
export const total: Measure = (amounts) => Number(amounts.total);

/** Add up rows by a key, in the order in which keys come. */
export function sumsBy<K>(rows: readonly CostRow[], keyOf: (row: CostRow) => K, measure: Measure = total): Map<K, number> {
  const found = new Map<K, number>();
  for (const row of rows) {
    const key = keyOf(row);
    found.set(key, (found.get(key) ?? 0) + measure(row.amounts));
  }
  return found;
}

/** Return amounts with their names, the largest first. */
export function largest(sums: ReadonlyMap<string, number>): [string, number][] {
  return [...sums].sort(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
}

/** Return the address of the rows that a number is made of. */
export function rowsLink(span: Span, by: readonly string[], only: Record<string, string> = {}): string {
  return link(["costs", "rows"], { from: span.from, to: span.to, tz: span.tz, by: by.join(","), ...only });
}

/** Return the part of a link that restricts rows to a value; {} where there is no such filter. */
export function onlyOf(dimension: string, value: string): Record<string, string> {
  const canFilter = ["project", "user", "job", "type"].includes(dimension);
  return canFilter ? { [dimension]: value } : {};
}

/** Return the day of a zone in which a moment is, as 2026-11-28. */
export function dayOf(moment: string | number, tz: string): string {
  return new Intl.DateTimeFormat("en-CA", { timeZone: tz, year: "numeric", month: "2-digit", day: "2-digit" }).format(new Date(moment));
}

/** Return a day so many days later. */
export function daysLater(day: string, days: number): string {
  const at = new Date(`${day}T12:00:00Z`);
  at.setUTCDate(at.getUTCDate() + days);
  return at.toISOString().slice(0, 10);
}

/** Return a month so many months later, as 2026-11. */
export function monthsLater(month: string, months: number): string {
  const at = new Date(`${month}-01T12:00:00Z`);
  at.setUTCMonth(at.getUTCMonth() + months);
  return at.toISOString().slice(0, 7);
}

/** The hour that goes on, in milliseconds since the epoch: who looks at it is not drawn each second. */
export const hourMs = computed(() => Math.floor(nowS.value / 3600) * 3_600_000);

/** Return the wall clock of a zone at a moment, as though it were UTC's, in milliseconds. */
function wallMs(atMs: number, tz: string): number {
  const text = new Intl.DateTimeFormat("sv-SE", { timeZone: tz, dateStyle: "short", timeStyle: "medium" }).format(atMs);
  return Date.parse(`${text.replace(" ", "T")}Z`);
}

/** Return the moment in the month before that is as far in it as now is in this one. */
export function sameTimeLastMonth(tz: string): string {
  const wall = new Date(wallMs(hourMs.value + 3_600_000, tz)).toISOString();
  const before = monthsLater(wall.slice(0, 7), -1);
  const wanted = Date.parse(`${before}${wall.slice(7)}`);
  // The 31st of a month that has fewer days is its end.
  const end = Date.parse(`${wall.slice(0, 7)}-01T00:00:00Z`);
  const at = Number.isNaN(wanted) || new Date(wanted).toISOString().slice(0, 7) !== before ? end : Math.min(wanted, end);
  return new Date(at - (wallMs(at, tz) - at)).toISOString().replace(/\.\d+Z$/, "Z");
}
