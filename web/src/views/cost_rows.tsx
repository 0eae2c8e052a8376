// The rows of the ledger that a number is made of: told apart by what the address says, and filtered.
import { useAnswer, usePages } from "../parts/answers";
import { Basis, period } from "../parts/basis";
import { usd } from "../parts/format";
import { type Cost, type CostRow, type Ledger, onlyOf } from "../parts/ledger";
import { Figure, Shown } from "../parts/panel";
import { type Column, Table } from "../parts/table";
import { link, place, setQuery } from "../router";

const DIMENSIONS = ["project", "user", "job", "type", "market", "zone", "state", "cause", "outcome", "price_source"] as const;
const FILTERS = ["project", "user", "job", "type"] as const;
const MOST_DIMENSIONS = 4;

function columnsOf(by: readonly string[], step: string): Column<CostRow>[] {
  const amount = (name: string, of: (row: CostRow) => number, isSpare = false): Column<CostRow> => ({ name, isNumber: true, isSpare, cell: (row) => usd(of(row)) });
  return [
    ...(step ? [{ name: "From", cell: (row: CostRow) => row.from.slice(0, 16).replace("T", " ") }] : []),
    ...by.map((name) => ({ name, cell: (row: CostRow) => cellOf(name, row.by[name] ?? "") })),
    amount("Total", (row) => Number(row.amounts.total)),
    amount("Direct", (row) => Number(row.amounts.direct), true),
    amount("Caused", (row) => Number(row.amounts.caused), true),
    amount("Shared", (row) => Number(row.amounts.shared), true),
    amount("Lost work", (row) => Number(row.amounts.lost_work), true),
    amount("Uncertain", (row) => Number(row.amounts.uncertain), true),
    { name: "Instance hours", isNumber: true, isSpare: true, cell: (row) => Number(row.amounts.instance_hours).toFixed(2) },
  ];
}

/** A value that can be looked into: it leads to its own rows, or to the containers themselves. */
function cellOf(dimension: string, value: string) {
  if (value === "(none)") return value;
  if (dimension === "job") return <a href={link(["containers"], { name: value })}>{value}</a>;
  const { query } = place.value;
  const only = onlyOf(dimension, value);
  return Object.keys(only).length > 0 && query[dimension] !== value ? <a href={link(["costs", "rows"], { ...query, ...only, by: finer(query["by"] ?? "", dimension) })}>{value}</a> : value;
}

/** Return by what the rows of one value are told apart. */
function finer(by: string, dimension: string): string {
  const next: Record<string, string> = { project: "user", user: "job", job: "state", type: "zone" };
  const rest = by.split(",").filter((each) => each && each !== dimension);
  return [...new Set([...rest, next[dimension] ?? "state"])].slice(0, MOST_DIMENSIONS).join(",");
}

export function CostRows() {
  const { query } = place.value;
  const by = (query["by"] ?? "").split(",").filter(Boolean);
  const asked: Record<string, string> = { by: by.join(","), from: query["from"] ?? "", to: query["to"] ?? "", tz: query["tz"] ?? "", step: query["step"] ?? "" };
  for (const name of FILTERS) asked[name] = query[name] ?? "";
  const list = usePages<CostRow>("v1/cost", asked, { idOf });
  const sum = useAnswer<Cost>("v1/cost", { ...asked, by: "", step: "", limit: 1 });
  return (
    <>
      <p class="trail"><a href={link(["costs"], { tz: query["tz"] ?? "" })}>Costs</a> / rows</p>
      <h1>What it is made of</h1>
      <p class="sentence">
        {period(query["from"] || "the beginning of this month", query["to"] ?? "")} ({query["tz"] || "UTC"})
        {FILTERS.filter((name) => query[name]).map((name) => (
          <span key={name}>
            {" "}· {name} {query[name]} <button type="button" onClick={() => setQuery({ [name]: "" })} aria-label={`All, not only ${name} ${query[name]}`}>✕</button>
          </span>
        ))}
      </p>
      <fieldset class="filters">
        <legend>Told apart by up to {MOST_DIMENSIONS}</legend>
        {[...new Set([...DIMENSIONS, ...by])].map((name) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={by.includes(name)}
              disabled={!by.includes(name) && by.length >= MOST_DIMENSIONS}
              onChange={(event) => setQuery({ by: (event.currentTarget.checked ? [...by, name] : by.filter((each) => each !== name)).join(",") })}
            />{" "}
            {name}
          </label>
        ))}
        <label><input type="checkbox" checked={query["step"] === "day"} onChange={(event) => setQuery({ step: event.currentTarget.checked ? "day" : "" })} /> by day</label>
      </fieldset>
      <Shown asked={sum}>{(answer) => <Figure value={usd(Number(answer.total.total))} of="total of all rows" />}</Shown>
      <Table label="Rows of the ledger" list={list} columns={columnsOf(by, asked["step"] ?? "")} idOf={idOf} empty="There is no data: nothing was booked for this." />
      <p class="note">{sum.answer.value && <Basis ledger={asLedger(sum.answer.value, asked)} />}</p>
    </>
  );
}

function idOf(row: CostRow): string {
  return `${row.from} ${JSON.stringify(row.by)}`;
}

function asLedger(answer: Cost, question: Record<string, string>): Ledger {
  return { ...answer, isWhole: true, question: { ...question, from: question["from"] || "the beginning of this month" } };
}
