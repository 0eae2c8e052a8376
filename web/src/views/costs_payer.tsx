// What a payer asks: are we on track, and why not?
import type { Answers } from "../api";
import { type Asked, useAnswer } from "../parts/answers";
import { Basis } from "../parts/basis";
import { type Budget, courseOf } from "../parts/budget";
import { Change, Numbers, Ranking, type Series, Stacked } from "../parts/charts";
import { percent, usd } from "../parts/format";
import {
  type CostRow, dayOf, daysLater, largest, type Ledger, monthsLater, onlyOf, rowsLink, sameTimeLastMonth, type Span, sumsBy, total, useLedger,
} from "../parts/ledger";
import { Figure, Panel, Shown } from "../parts/panel";
import { setQuery } from "../router";
import type { Month } from "./costs";

type Forecast = Answers["CostForecastAnswer"];
type Budgets = Answers["BudgetsAnswer"];
type Prices = Answers["PriceListAnswer"];

const EACH_S = 60;

export function Payer({ month, by }: { month: Month; by: string }) {
  const forecast = useAnswer<Forecast>("v1/cost/forecast", { tz: month.tz }, { eachS: EACH_S });
  const budgets = useAnswer<Budgets>("v1/budgets", {}, { on: (change) => change.kind === "budget", eachS: EACH_S });
  const labels = forecast.answer.value?.labels ?? [];
  const before: Span = { tz: month.tz, from: monthsLater(month.month, -1), to: month.isOver ? month.month : sameTimeLastMonth(month.tz) };
  const now = useLedger(month, { by });
  const then = useLedger(before, { by });
  return (
    <>
      <Panel title="Are we on track?" note={now.answer.value && <Basis ledger={now.answer.value} />}>
        <Verdict month={month} now={now} then={then} forecast={forecast} budgets={budgets} before={before} />
      </Panel>
      <div class="panels wide">
        <ByDimension month={month} by={by} labels={labels} now={now} then={then} />
        <Days month={month} />
        <Week month={month} />
        <Spot month={month} />
        <Bills month={month} />
        <Missing month={month} labels={labels} now={now} />
      </div>
    </>
  );
}

/** Return the budgets of projects for months, of which each dollar is in one at most. */
function ofProjects(budgets: readonly Budget[]): Budget[] {
  const seen = new Set<string>();
  const months = budgets.filter((each) => each.scope === "project" && /^\d{4}-\d{2}$/.test(each.period));
  return months.filter((each) => !seen.has(each.whose) && seen.add(each.whose));
}

function Verdict({ month, now, then, forecast, budgets, before }: {
  month: Month; now: Asked<Ledger>; then: Asked<Ledger>; forecast: Asked<Forecast>; budgets: Asked<Budgets>; before: Span;
}) {
  const all = ofProjects(budgets.answer.value?.items ?? []);
  const limit = all.reduce((sum, each) => sum + Number(each.limit), 0);
  const inBudgets = all.reduce((sum, each) => sum + Number(each.spent), 0);
  const lastSpent = then.answer.value && Number(then.answer.value.total.total);
  return (
    <>
      {!month.isOver && budgets.answer.value && <Sentence budgets={budgets.answer.value.items} />}
      {budgets.problem.value && <p class="problem" role="alert">{budgets.problem.value}</p>}
      <Shown asked={now}>
        {(ledger) => (
          <div class="figures">
            <Figure value={usd(Number(ledger.total.total))} of={month.isOver ? `in ${month.month} (${month.tz})` : `this month so far (${month.month}, ${month.tz})`} href={rowsLink(month, ["project"])} />
            {!month.isOver && forecast.answer.value && (
              <Figure
                value={`${usd(Number(forecast.answer.value.forecast.p10))} – ${usd(Number(forecast.answer.value.forecast.p90))}`}
                of={`by the end of the month, likely ${usd(Number(forecast.answer.value.forecast.p50))} (p10 to p90)`}
              />
            )}
            {!month.isOver && all.length > 0 && <Figure value={`${usd(inBudgets)} of ${usd(limit)}`} of={`in the ${all.length === 1 ? "month budget" : `${all.length} month budgets`} of projects`} />}
            {lastSpent !== undefined && (
              <Figure value={usd(lastSpent)} of={month.isOver ? `in ${before.from}, the month before` : `last month up to the same time (${before.from})`} href={rowsLink(before, ["project"])} />
            )}
          </div>
        )}
      </Shown>
      {now.answer.value && lastSpent !== undefined && (
        <p>Against {month.isOver ? "the month before" : "last month up to the same time"}: <Change now={Number(now.answer.value.total.total)} before={lastSpent} told={usd} /></p>
      )}
      {forecast.problem.value && <p class="problem" role="alert">{forecast.problem.value}</p>}
      {then.problem.value && <p class="problem" role="alert">{then.problem.value}</p>}
      {!month.isOver && <Standings budgets={budgets.answer.value?.items ?? []} />}
    </>
  );
}

/** The answer in one sentence. */
export function Sentence({ budgets }: { budgets: readonly Budget[] }) {
  if (budgets.length === 0) return <p class="verdict warn">No budget is set: nobody can say whether this is on track. Set one under budgets in the configuration.</p>;
  const named = (...courses: string[]): string => budgets.filter((each) => courses.includes(courseOf(each))).map((each) => each.name).join(", ");
  const over = named("stopped", "over");
  const likely = named("likely over");
  const maybe = named("may be over");
  const unknown = named("unknown");
  if (over || likely) {
    return <p class="verdict bad">Not on track: {[over && `${over} is spent`, likely && `${likely} likely ends over its limit`].filter(Boolean).join("; ")}.</p>;
  }
  if (maybe) return <p class="verdict warn">On track, but not for sure: {maybe} may end over its limit.</p>;
  if (unknown) return <p class="verdict warn">Within all limits so far; no forecast yet for {unknown}.</p>;
  return <p class="verdict good">On track: {budgets.length === 1 ? "the budget ends" : `${budgets.length === 2 ? "both" : `all ${budgets.length}`} budgets end`} within {budgets.length === 1 ? "its limit" : "their limits"}.</p>;
}

function Standings({ budgets }: { budgets: readonly Budget[] }) {
  const troubled = budgets.filter((each) => courseOf(each) !== "on track");
  if (troubled.length === 0) return null;
  return (
    <Numbers label="Budgets that are not on track" heads={["Budget", "Spent", "Limit", "At its end, p10 to p90"]}>
      {troubled.map((each) => (
        <tr key={each.name}>
          <th scope="row">{each.name} <span class="quiet">({each.period}, {courseOf(each)})</span></th>
          <td class="number">{usd(Number(each.spent))}</td>
          <td class="number">{usd(Number(each.limit))}</td>
          <td class="number">{each.forecast ? `${usd(Number(each.forecast.p10))} – ${usd(Number(each.forecast.p90))}` : "no data"}</td>
        </tr>
      ))}
    </Numbers>
  );
}

function ByDimension({ month, by, labels, now, then }: { month: Month; by: string; labels: readonly string[]; now: Asked<Ledger>; then: Asked<Ledger> }) {
  const choices = ["project", "user", ...labels.map((each) => `label:${each}`)];
  const titleOf = (name: string): string => (name.startsWith("label:") ? `label ${name.slice(6)}` : name);
  const old = then.answer.value && sumsBy(then.answer.value.items, (row) => row.by[by] ?? "");
  return (
    <Panel title="By whom" note={now.answer.value && <Basis ledger={now.answer.value} />}>
      <p class="controls">
        <label>
          By{" "}
          <select value={by} onChange={(event) => setQuery({ by: event.currentTarget.value === "project" ? "" : event.currentTarget.value })}>
            {[...new Set([...choices, by])].map((each) => <option key={each} value={each}>{titleOf(each)}</option>)}
          </select>
        </label>
      </p>
      <Shown asked={now}>
        {(ledger) => (
          <Ranking
            label={`Cost by ${titleOf(by)}`}
            heads={[titleOf(by), "USD", "of all", month.isOver ? "since the month before" : "since last month"]}
            told={usd}
            most={15}
            empty="There is no data: nothing was booked in this time."
            rows={largest(sumsBy(ledger.items, (row) => row.by[by] ?? "")).map(([name, amount]) => ({
              key: name,
              name: name === "(none)" ? (by.startsWith("label:") ? "without this label" : "nobody in particular") : name,
              amount,
              href: rowsLink(month, [by, by === "user" ? "job" : "user"], onlyOf(by, name)),
              more: [<Change key="c" now={amount} before={old && (old.get(name) ?? 0)} told={usd} />],
            }))}
          />
        )}
      </Shown>
    </Panel>
  );
}

const PARTS: readonly Series[] = [
  { name: "work", fill: "fill-work" }, { name: "caused", fill: "fill-caused" }, { name: "idle", fill: "fill-idle" }, { name: "lost", fill: "fill-lost" },
];

function partOf(row: CostRow): number[] {
  const { direct, caused, shared } = row.amounts;
  const isLost = (row.by["outcome"] ?? "").startsWith("lost:");
  return [isLost ? 0 : Number(direct), Number(caused), Number(shared), isLost ? Number(direct) : 0];
}

function Days({ month }: { month: Month }) {
  const asked = useLedger(month, { by: "outcome", step: "day" });
  return (
    <Panel title="What it was for, by day" note={asked.answer.value && <Basis ledger={asked.answer.value} of="work is what came to something or may yet, lost what came to nothing, caused boots and what was never used, idle all else" />}>
      <Shown asked={asked}>
        {(ledger) => {
          const days = new Map<string, number[]>();
          for (const row of ledger.items) {
            const day = dayOf(row.from, month.tz);
            const sums = days.get(day) ?? [0, 0, 0, 0];
            days.set(day, partOf(row).map((part, index) => part + (sums[index] ?? 0)));
          }
          return (
            <Stacked
              label="Cost by day"
              series={PARTS}
              told={usd}
              columns={[...days].map(([day, values]) => ({ name: day, values, href: rowsLink({ tz: month.tz, from: day, to: daysLater(day, 1) }, ["project", "cause", "outcome"]) }))}
            />
          );
        }}
      </Shown>
    </Panel>
  );
}

function Week({ month }: { month: Month }) {
  const { today, tz } = month;
  const by = ["project", "type", "cause"];
  const span: Span = { tz, from: daysLater(today, -7), to: today };
  const now = useLedger(span, { by: by.join(",") });
  const then = useLedger({ tz, from: daysLater(today, -14), to: daysLater(today, -7) }, { by: by.join(",") });
  return (
    <Panel title="What changed this week" note={now.answer.value && <Basis ledger={now.answer.value} of="against the seven days before; the cause is the part that changed most" />}>
      <Shown asked={then}>
        {(old) => <Shown asked={now}>{(ledger) => <Changes span={span} now={ledger.items} then={old.items} />}</Shown>}
      </Shown>
    </Panel>
  );
}

function Changes({ span, now, then }: { span: Span; now: readonly CostRow[]; then: readonly CostRow[] }) {
  const partOfRow = (row: CostRow): string => `${row.by["cause"]} on ${row.by["type"]}`;
  const projects = [...new Set([...now, ...then].map((row) => row.by["project"] ?? ""))];
  const found = projects.map((project) => {
    const of = (rows: readonly CostRow[]): CostRow[] => rows.filter((row) => row.by["project"] === project);
    const [newer, older] = [sumsBy(of(now), partOfRow), sumsBy(of(then), partOfRow)];
    const sum = (sums: Map<string, number>): number => [...sums.values()].reduce((a, b) => a + b, 0);
    const parts = [...new Set([...newer.keys(), ...older.keys()])].map((part) => ({ part, before: older.get(part) ?? 0, after: newer.get(part) ?? 0 }));
    parts.sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before));
    return { project, before: sum(older), after: sum(newer), cause: parts[0] };
  });
  found.sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before));
  const changed = found.filter((each) => each.after !== each.before).slice(0, 8);
  if (changed.length === 0) return <p class="empty">{now.length === 0 && then.length === 0 ? "There is no data of whole days yet." : "Nothing changed."}</p>;
  return (
    <Numbers label="The largest changes" heads={["Project", "Change", "Most of it"]}>
      {changed.map(({ project, before, after, cause }) => (
        <tr key={project}>
          <th scope="row"><a href={rowsLink(span, ["user", "type", "cause"], onlyOf("project", project))}>{project === "(none)" ? "nobody in particular" : project}</a></th>
          <td class="number"><Change now={after} before={before} told={usd} /></td>
          <td class="number">{cause && <>{cause.part}: {usd(cause.before)} → {usd(cause.after)}</>}</td>
        </tr>
      ))}
    </Numbers>
  );
}

function Spot({ month }: { month: Month }) {
  const asked = useLedger(month, { by: "market,type" });
  const prices = useAnswer<Prices>("v1/prices", {}, { eachS: EACH_S });
  return (
    <Panel title="Spot instances" note={asked.answer.value && <Basis ledger={asked.answer.value} of="the saving is against today's on-demand price of the same machine" />}>
      <Shown asked={asked}>
        {(ledger) => {
          const markets = sumsBy(ledger.items, (row) => row.by["market"] ?? "");
          const [spot, whole] = [markets.get("preemptible") ?? 0, Number(ledger.total.total)];
          const found = prices.answer.value && savingOf(ledger.items, prices.answer.value);
          return (
            <div class="figures">
              <Figure value={whole > 0 ? percent(spot / whole) : "no data"} of={`of the cost is spot: ${usd(spot)}`} href={rowsLink(month, ["market", "type"])} />
              {found && (
                <Figure
                  value={found.hours > 0 ? usd(Math.abs(found.saving)) : spot > 0 ? "not known" : usd(0)}
                  of={found.hours > 0 || spot === 0 ? (found.saving < 0 ? "more than on demand" : "saved by it") : "saved: no on-demand type of the same machine is configured"}
                />
              )}
            </div>
          );
        }}
      </Shown>
      {prices.problem.value && <p class="problem" role="alert">{prices.problem.value}</p>}
    </Panel>
  );
}

/** Return what spot saved, over the instance hours whose machine can be had on demand too. */
function savingOf(rows: readonly CostRow[], prices: Prices): { saving: number; hours: number } {
  const machineOf = new Map(prices.items.map((each) => [each.instance_type, each.provider_type]));
  const onDemand = new Map(
    prices.items.filter((each) => each.market === "on-demand" && each.usd_per_hour !== null && each.zone === null).map((each) => [each.provider_type, Number(each.usd_per_hour)]),
  );
  let [saving, hours] = [0, 0];
  for (const row of rows) {
    const price = onDemand.get(machineOf.get(row.by["type"] ?? "") ?? "");
    if (row.by["market"] !== "preemptible" || price === undefined) continue;
    hours += Number(row.amounts.instance_hours);
    saving += Number(row.amounts.instance_hours) * price - total(row.amounts);
  }
  return { saving, hours };
}

function Bills({ month }: { month: Month }) {
  const span: Span = { tz: "UTC", from: monthsLater(month.month, -5), to: month.isOver ? monthsLater(month.month, 1) : "" };
  const asked = useLedger(span, { by: "price_source", step: "month" });
  return (
    <Panel title="Ledger against bill" note={asked.answer.value && <Basis ledger={asked.answer.value} of="by the clouds' months; what differs is booked by longshore cost reconcile" />}>
      <Shown asked={asked}>
        {(ledger) => {
          const months = new Map<string, { whole: number; corrected: number; isCompared: boolean }>();
          for (const row of ledger.items) {
            const name = row.from.slice(0, 7);
            const known = months.get(name) ?? { whole: 0, corrected: 0, isCompared: false };
            const isBill = row.by["price_source"] === "bill";
            known.whole += total(row.amounts);
            known.corrected += isBill ? total(row.amounts) : 0;
            months.set(name, { ...known, isCompared: known.isCompared || isBill });
          }
          if (months.size === 0) return <p class="empty">There is no data.</p>;
          return (
            <Numbers label="Ledger against bill by month" heads={["Month", "Ledger", "Bill less ledger", "Now booked"]}>
              {[...months].reverse().map(([name, each]) => (
                <tr key={name}>
                  <th scope="row"><a href={rowsLink({ tz: "UTC", from: name, to: monthsLater(name, 1) }, ["price_source", "type"])}>{name}</a></th>
                  <td class="number">{usd(each.whole - each.corrected)}</td>
                  <td class="number">{each.isCompared ? <Change now={each.whole} before={each.whole - each.corrected} told={usd} /> : <span class="quiet">no bill booked</span>}</td>
                  <td class="number">{usd(each.whole)}</td>
                </tr>
              ))}
            </Numbers>
          );
        }}
      </Shown>
    </Panel>
  );
}

function Missing({ month, labels, now }: { month: Month; labels: readonly string[]; now: Asked<Ledger> }) {
  return (
    <Panel title="What nobody can be sure of" note={now.answer.value && <Basis ledger={now.answer.value} />}>
      <Shown asked={now}>
        {(ledger) => (
          <>
            <div class="figures">
              <Figure value={usd(Number(ledger.total.uncertain))} of="uncertain: may not be billed, or be billed beside it" href={rowsLink(month, ["type", "state", "cause"])} />
              <Figure value={`${Number(ledger.unpriced_instance_hours).toFixed(2)} h`} of="of instances without a price" href={rowsLink(month, ["type", "price_source"])} {...(Number(ledger.unpriced_instance_hours) > 0 ? { tone: "bad" as const } : {})} />
              {labels.slice(0, 4).map((label) => <Unlabelled key={label} month={month} label={label} />)}
            </div>
            {labels.length === 0 && <p class="note">No label is kept apart: name those that are in cost.labels to see what has none.</p>}
            <p>Not included: {ledger.not_included.join("; ")}.</p>
          </>
        )}
      </Shown>
    </Panel>
  );
}

function Unlabelled({ month, label }: { month: Month; label: string }) {
  const by = `label:${label}`;
  const asked = useLedger(month, { by: `${by},project` });
  return (
    <Shown asked={asked}>
      {(ledger) => (
        <Figure
          value={usd(sumsBy(ledger.items.filter((row) => row.by["project"] !== "(none)"), (row) => row.by[by] ?? "").get("(none)") ?? 0)}
          of={`of projects, without the label ${label}`}
          href={rowsLink(month, [by, "project"])}
        />
      )}
    </Shown>
  );
}
