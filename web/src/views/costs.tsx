// Costs, for who pays, who leads a team and who runs the cluster; a user's own for everybody else.
// The address keeps which of them, the month, the time zone and by what amounts are told apart.
import { useSignal } from "@preact/signals";
import { caller } from "../api";
import { dayOf, hourMs, monthsLater, type Span } from "../parts/ledger";
import { link, place, setQuery } from "../router";
import { CostRows } from "./cost_rows";
import { Operation } from "./costs_operation";
import { Payer } from "./costs_payer";
import { Team } from "./costs_team";

/** What is looked at: a month of a zone, whole or up to now. */
export interface Month extends Span {
  readonly month: string;
  readonly isOver: boolean;
  /** The day that goes on, in the zone. */
  readonly today: string;
}

const TABS = { payer: "Payer", team: "Team", operation: "Operation" } as const;
const MONTH = /^\d{4}-(0[1-9]|1[0-2])$/;

function isZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** Return what the address asks for. */
function monthOf(query: Readonly<Record<string, string>>): Month {
  const wanted = query["tz"] ?? "";
  const tz = isZone(wanted) ? wanted : "UTC";
  const today = dayOf(hourMs.value, tz);
  const now = today.slice(0, 7);
  const month = MONTH.test(query["month"] ?? "") && (query["month"] ?? "") < now ? (query["month"] ?? "") : now;
  const isOver = month < now;
  return { month, isOver, today, tz, from: month, to: isOver ? monthsLater(month, 1) : "" };
}

export function Costs() {
  const { query, path } = place.value;
  if (path[1] === "rows") return <CostRows />;
  const role = caller.value?.role;
  const tabs = role === "admin" ? (["payer", "team", "operation"] as const) : (["team"] as const);
  const tab = tabs.find((each) => each === query["view"]) ?? tabs[0];
  const month = monthOf(query);
  return (
    <div class="costs">
      <h1>{role === "user" ? "What your work costs" : "Costs"}</h1>
      {tabs.length > 1 && (
        <nav class="tabs" aria-label="Whose costs">
          {tabs.map((each) => (
            <a key={each} href={link(["costs"], { ...query, view: each })} aria-current={each === tab ? "page" : undefined}>{TABS[each]}</a>
          ))}
        </nav>
      )}
      <When month={month} />
      {tab === "payer" && <Payer month={month} by={query["by"] ?? "project"} />}
      {tab === "team" && <Team month={month} project={query["project"] ?? ""} />}
      {tab === "operation" && <Operation month={month} />}
    </div>
  );
}

function When({ month }: { month: Month }) {
  const problem = useSignal("");
  const now = month.today.slice(0, 7);
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return (
    <div class="filters" role="group" aria-label="Month and time zone">
      <label>
        Month{" "}
        <select value={month.month} onChange={(event) => setQuery({ month: event.currentTarget.value === now ? "" : event.currentTarget.value })}>
          {Array.from({ length: 25 }, (_, back) => monthsLater(now, -back)).map((each) => <option key={each} value={each}>{each === now ? `${each}, so far` : each}</option>)}
        </select>
      </label>
      <label>
        Time zone{" "}
        <input
          type="text"
          size={16}
          value={month.tz}
          onChange={(event) => {
            const wanted = event.currentTarget.value.trim() || "UTC";
            problem.value = isZone(wanted) ? "" : `${wanted} is no time zone: name one as in Europe/Berlin.`;
            if (!problem.value) setQuery({ tz: wanted === "UTC" ? "" : wanted });
          }}
        />
      </label>
      {own !== month.tz && own !== "UTC" && <button type="button" onClick={() => setQuery({ tz: own })}>{own}</button>}
      <a href={`v1/cost/export?month=${month.month}&tz=${encodeURIComponent(month.tz)}`} download>All lines as CSV</a>
      {problem.value && <span class="problem" role="alert">{problem.value}</span>}
    </div>
  );
}
