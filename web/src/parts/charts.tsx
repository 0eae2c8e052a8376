// Charts of amounts: columns over time, stacked, and rows with a bar. Each says its numbers to who
// does not see it, and has them as a table below, in which they lead to their rows.
import type { ComponentChildren } from "preact";
import { percent } from "./format";

export interface Series {
  readonly name: string;
  /** A class of the style sheet: what fills it. */
  readonly fill: string;
}

export interface StackColumn {
  readonly name: string;
  /** One for each series; null for "not known". */
  readonly values: readonly (number | null)[];
  readonly href?: string;
}

const HEIGHT_PX = 160;

/** Columns over time, of which each has a part of each series. */
export function Stacked({ label, series, columns, told }: {
  label: string;
  series: readonly Series[];
  columns: readonly StackColumn[];
  told: (amount: number) => string;
}) {
  const heights = columns.map((column) => column.values.reduce<number>((sum, value) => sum + Math.max(0, value ?? 0), 0));
  const most = Math.max(...heights, 0);
  const sums = series.map((_, index) => columns.reduce((sum, column) => sum + (column.values[index] ?? 0), 0));
  const spoken = series.map((each, index) => `${each.name} ${told(sums[index] ?? 0)}`).join(", ");
  if (columns.length === 0) return <p class="empty">There is no data for this time.</p>;
  return (
    <div class="chart">
      {series.length > 1 && <Legend series={series} sums={sums} told={told} />}
      <div class="plot">
        <span class="most">{told(most)}</span>
        <div class="columns" role="img" aria-label={`${label}: ${spoken}; ${columns.length} columns from ${columns[0]?.name} to ${columns.at(-1)?.name}, the highest ${told(most)}`}>
          {columns.map((column) => (
            <div key={column.name} class="column" title={`${column.name}: ${series.map((each, index) => `${each.name} ${amountOf(column.values[index], told)}`).join(", ")}`}>
              {series.map((each, index) => (
                <span key={each.name} class={each.fill} style={{ height: `${most > 0 ? (Math.max(0, column.values[index] ?? 0) / most) * HEIGHT_PX : 0}px` }} />
              ))}
            </div>
          ))}
        </div>
        <p class="ends"><span>{columns[0]?.name}</span><span>{columns.length > 1 ? columns.at(-1)?.name : ""}</span></p>
      </div>
      <details>
        <summary>As a table</summary>
        <Numbers label={label} heads={["", ...series.map((each) => each.name)]}>
          {columns.map((column) => (
            <tr key={column.name}>
              <th scope="row">{column.href ? <a href={column.href}>{column.name}</a> : column.name}</th>
              {series.map((each, index) => <td key={each.name} class="number">{amountOf(column.values[index], told)}</td>)}
            </tr>
          ))}
        </Numbers>
      </details>
    </div>
  );
}

function amountOf(value: number | null | undefined, told: (amount: number) => string): string {
  return value === null || value === undefined ? "no data" : told(value);
}

function Legend({ series, sums, told }: { series: readonly Series[]; sums: readonly number[]; told: (amount: number) => string }) {
  return (
    <ul class="key">
      {series.map((each, index) => (
        <li key={each.name}><span class={`swatch ${each.fill}`} /> {each.name} <strong>{told(sums[index] ?? 0)}</strong></li>
      ))}
    </ul>
  );
}

/** A table of few rows, that may be wider than the screen. */
export function Numbers({ label, heads, endsInText = false, children }: { label: string; heads: readonly string[]; endsInText?: boolean; children: ComponentChildren }) {
  const classOf = (index: number): string => (index === 0 ? "" : endsInText && index === heads.length - 1 ? "text" : "number");
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label={`${label}, as a table`}>
      <table class="plain figures-table">
        <thead>
          <tr>{heads.map((head, index) => (head ? <th key={head} scope="col" class={classOf(index)}>{head}</th> : <td key={index} />))}</tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}

export interface Ranked {
  readonly name: ComponentChildren;
  readonly key: string;
  readonly amount: number;
  readonly href?: string;
  /** What stands in the further columns. */
  readonly more?: readonly ComponentChildren[];
}

/** Rows with a bar, the largest first as they come; the rest is one row. */
export function Ranking({ label, heads, rows, told, most = 10, endsInText = false, empty }: {
  label: string;
  heads: readonly string[];
  rows: readonly Ranked[];
  told: (amount: number) => string;
  most?: number;
  /** Whether the last column has sentences. */
  endsInText?: boolean;
  empty: string;
}) {
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  const shown = rows.slice(0, most);
  const rest = rows.slice(most).reduce((sum, row) => sum + row.amount, 0);
  const whole = rows.reduce((sum, row) => sum + row.amount, 0);
  const largest = Math.max(...rows.map((row) => row.amount), 0);
  const widths = (amount: number): string => `${largest > 0 ? Math.max(0, (amount / largest) * 100) : 0}%`;
  return (
    <Numbers label={label} heads={heads} endsInText={endsInText}>
      {shown.map((row) => (
        <tr key={row.key}>
          <th scope="row" class="with-bar">
            {row.href ? <a href={row.href}>{row.name}</a> : row.name}
            <span class="of-all" aria-hidden="true"><span style={{ width: widths(row.amount) }} /></span>
          </th>
          <td class="number">{told(row.amount)}</td>
          <td class="number quiet">{whole > 0 ? percent(row.amount / whole) : "\u2014"}</td>
          {row.more?.map((each, index) => <td key={index} class={endsInText ? "wrap" : "number"}>{each}</td>)}
        </tr>
      ))}
      {rows.length > most && (
        <tr>
          <th scope="row">{rows.length - most} more</th>
          <td class="number">{told(rest)}</td>
          <td class="number quiet">{whole > 0 ? percent(rest / whole) : "\u2014"}</td>
        </tr>
      )}
    </Numbers>
  );
}

/** How much is more than before: with its sign, and as per cent where there was something. */
export function Change({ now, before, told }: { now: number; before: number | undefined; told: (amount: number) => string }) {
  if (before === undefined) return <span class="quiet">no data</span>;
  const by = now - before;
  if (by === 0) return <span class="quiet">unchanged</span>;
  const sign = by > 0 ? "+" : "\u2212";
  return (
    <span class={by > 0 ? "more" : "less"}>
      {sign}{told(Math.abs(by))}{before > 0 && ` (${sign}${percent(Math.abs(by / before))})`}
    </span>
  );
}
