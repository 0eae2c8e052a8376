// Are we on track, and why not? In one panel that leads to the costs: what budgets say, the month so
// far and at its end, the budget that is nearest to its limit, and what changed most.
import type { Answers } from "../api";
import { useAnswer } from "../parts/answers";
import { type Budget, courseOf, Meter } from "../parts/budget";
import { localTime, percent, plural, usd } from "../parts/format";
import { dayOf, hourMs, largest, type Ledger, monthsLater, rowsLink, sameTimeLastMonth, type Span, sumsBy, useLedger } from "../parts/ledger";
import { Figure, Panel, Shown } from "../parts/panel";
import { link } from "../router";
import { Sentence } from "./costs_payer";

type Budgets = Answers["BudgetsAnswer"];
type Forecast = Answers["CostForecastAnswer"];

const EACH_S = 60;
const BUDGETS_SHOWN = 3;
const TZ = "UTC";
const COURSES = ["stopped", "over", "likely over", "may be over", "unknown", "on track"] as const;
const BY_PROJECT = { by: "project" };

export function Spending() {
  const month = dayOf(hourMs.value, TZ).slice(0, 7);
  const span: Span = { tz: TZ, from: month, to: "" };
  const before: Span = { tz: TZ, from: monthsLater(month, -1), to: sameTimeLastMonth(TZ) };
  const now = useLedger(span, BY_PROJECT);
  const then = useLedger(before, BY_PROJECT);
  const forecast = useAnswer<Forecast>("v1/cost/forecast", { tz: TZ }, { eachS: EACH_S });
  const budgets = useAnswer<Budgets>("v1/budgets", {}, { eachS: EACH_S, on: (change) => change.kind === "budget" });
  return (
    <Panel title="Spending">
      <Shown asked={budgets}>{(told) => <Sentence budgets={told.items} />}</Shown>
      <Shown asked={now}>
        {(ledger) => (
          <div class="figures">
            <Figure value={usd(Number(ledger.total.total))} of="this month so far" href={rowsLink(span, ["project"])} />
            {forecast.answer.value && <Figure value={usd(Number(forecast.answer.value.forecast.p50))} of="likely at its end" href={link(["costs"])} />}
            {then.answer.value && <Figure value={usd(Number(then.answer.value.total.total))} of="last month by this time" href={rowsLink(before, ["project"])} />}
          </div>
        )}
      </Shown>
      {now.answer.value && then.answer.value && <p>{changeText(now.answer.value, then.answer.value)}</p>}
      {budgets.answer.value && <Nearest items={budgets.answer.value.items} />}
      <p class="note">
        {now.answer.value && `In US dollars, ${month} of ${TZ}, as of ${localTime(now.answer.value.as_of)}. `}
        {forecast.answer.value && `At its end between ${usd(Number(forecast.answer.value.forecast.p10))} and ${usd(Number(forecast.answer.value.forecast.p90))}, with a chance of three in four. `}
        <a href={link(["costs"])}>All costs</a>
      </p>
    </Panel>
  );
}

/** Return what changed most against the same part of last month, and by how much. */
function changeText(now: Ledger, before: Ledger): string {
  const changes = sumsBy(now.items, (row) => row.by["project"] ?? "");
  for (const [project, amount] of sumsBy(before.items, (row) => row.by["project"] ?? "")) changes.set(project, (changes.get(project) ?? 0) - amount);
  const [most] = largest(new Map([...changes].map(([project, by]) => [project, Math.abs(by)])));
  if (!most || most[1] === 0) return "No project costs more or less than last month by this time.";
  const who = most[0] === "(none)" ? "what is no project's" : `project ${most[0]}`;
  return `Biggest change: ${who}, ${usd(most[1])} ${(changes.get(most[0]) ?? 0) > 0 ? "more" : "less"} than last month by this time.`;
}

/** The budgets that are worst off, or else nearest to their limits. */
function Nearest({ items }: { items: readonly Budget[] }) {
  const shown = [...items]
    .sort(
      (one, other) => COURSES.indexOf(courseOf(one)) - COURSES.indexOf(courseOf(other)) || shareOf(other) - shareOf(one) || one.name.localeCompare(other.name),
    )
    .slice(0, BUDGETS_SHOWN);
  return (
    <>
      {shown.map((each) => (
        <div key={each.name}>
          <p class="note">
            Budget {each.name} ({[each.scope, each.whose].filter(Boolean).join(" ")}, {each.period}): {usd(Number(each.spent))} of{" "}
            {usd(Number(each.limit))} spent ({percent(shareOf(each))}). {each.message}
          </p>
          <Meter budget={each} />
        </div>
      ))}
      {items.length > shown.length && <p class="note"><a href={link(["costs"])}>{plural(items.length - shown.length, "more budget")}</a></p>}
    </>
  );
}

function shareOf(budget: Budget): number {
  const [spent, limit] = [Number(budget.spent), Number(budget.limit)];
  return limit > 0 ? spent / limit : Number(spent > 0);
}
