// Are we on track, and why not? The month so far, the budget that is nearest to its end, and what
// changed most since the month before.
import type { Answers } from "../api";
import { useAnswer } from "../parts/answers";
import { nowS } from "../parts/clock";
import { localTime, percent, usd } from "../parts/format";
import { Gauge } from "../parts/gauge";
import { Figure, Panel, Shown } from "../parts/panel";
import { link } from "../router";

type Cost = Answers["CostAnswer"];
type Budgets = Answers["BudgetsAnswer"];
type Budget = Budgets["items"][number];

const COST_EACH_S = 60;
const BUDGETS_EACH_S = 30;
const MOST = 1000;
const STEP_S = 600;

export function Spending() {
  const [from, to] = lastMonthSoFar(Math.floor(nowS.value / STEP_S) * STEP_S);
  const now = useAnswer<Cost>("v1/cost", { by: "project", limit: MOST }, { eachS: COST_EACH_S });
  const before = useAnswer<Cost>("v1/cost", { by: "project", limit: MOST, from, to });
  const budgets = useAnswer<Budgets>("v1/budgets", {}, { eachS: BUDGETS_EACH_S, on: (change) => change.kind === "budget" });
  return (
    <Panel title="Spending">
      <Shown asked={budgets}>{(told) => <Course items={told.items} />}</Shown>
      <Shown asked={now}>
        {(cost) => (
          <>
            <div class="figures">
              <Figure value={usd(Number(cost.total.total))} of="this month so far" href={link(["costs"])} />
              {before.answer.value && <Figure value={usd(Number(before.answer.value.total.total))} of="last month by now" href={link(["costs"])} />}
            </div>
            {before.answer.value && <p>{changeText(cost, before.answer.value)}</p>}
            <p class="note">
              In US dollars, by months of UTC, as of {localTime(cost.as_of)}. <a href={link(["costs"])}>All costs</a>
            </p>
          </>
        )}
      </Shown>
    </Panel>
  );
}

/** Return from when to when the month before had gone on for as long as this one has. */
export function lastMonthSoFar(atS: number): [string, string] {
  const at = new Date(atS * 1000);
  const month = Date.UTC(at.getUTCFullYear(), at.getUTCMonth(), 1);
  const before = Date.UTC(at.getUTCFullYear(), at.getUTCMonth() - 1, 1);
  const until = Math.min(month, before + Math.max(atS * 1000 - month, 1000));
  return [new Date(before).toISOString().replace(".000Z", "Z"), new Date(until).toISOString().replace(".000Z", "Z")];
}

/** Return what changed most, and by how much. */
function changeText(now: Cost, before: Cost): string {
  const changes = new Map<string, number>();
  const add = (cost: Cost, sign: number): void => {
    for (const row of cost.items) {
      const project = row.by["project"] ?? "";
      changes.set(project, (changes.get(project) ?? 0) + sign * Number(row.amounts.total));
    }
  };
  add(now, 1);
  add(before, -1);
  const [most] = [...changes].sort(([one, by], [other, than]) => Math.abs(than) - Math.abs(by) || one.localeCompare(other));
  if (!most || most[1] === 0) return "No project costs more or less than last month by now.";
  const [project, by] = most;
  return `Biggest change: project ${project}, ${usd(Math.abs(by))} ${by > 0 ? "more" : "less"} than last month by now.`;
}

/** How budgets stand, the worst first; the first of them is shown whole. */
function Course({ items }: { items: readonly Budget[] }) {
  const ordered = [...items].sort((one, other) => shareOf(other) - shareOf(one) || one.name.localeCompare(other.name));
  const [worst] = ordered;
  if (!worst) return <p class="verdict">No budget is set.</p>;
  const [tone, text] = courseOf(worst);
  const bad = ordered.filter((each) => courseOf(each)[0] !== "good").length;
  return (
    <>
      <p class={`verdict ${tone}`}>{text}</p>
      <Gauge label="Spent" used={Number(worst.spent)} limit={Number(worst.limit)} text={`Budget ${worst.name} (${worst.scope} ${worst.whose}, ${worst.period}): ${usd(Number(worst.spent))} of ${usd(Number(worst.limit))} (${percent(ratio(Number(worst.spent), Number(worst.limit)))})`} />
      <p class="note">
        {worst.forecast && `At its end likely ${usd(Number(worst.forecast.p50))} (${usd(Number(worst.forecast.p10))} to ${usd(Number(worst.forecast.p90))}). `}
        {worst.message && `${worst.message} `}
        {`Budgets as of ${localTime(worst.as_of)}. `}
        {bad > 1 && `${bad} of ${items.length} budgets are not on track. `}
      </p>
    </>
  );
}

function ratio(part: number, whole: number): number {
  return whole > 0 ? part / whole : part > 0 ? 1 : 0;
}

/** Return how much of a budget will be gone at its end; what stops work is worse than any. */
function shareOf(budget: Budget): number {
  if (budget.stopped_until) return Infinity;
  return ratio(Math.max(Number(budget.spent), Number(budget.forecast?.p50 ?? 0)), Number(budget.limit));
}

function courseOf(budget: Budget): ["good" | "warn" | "bad", string] {
  const limit = Number(budget.limit);
  if (budget.stopped_until) return ["bad", `Budget ${budget.name} is spent: nothing new begins before ${localTime(budget.stopped_until)}.`];
  if (Number(budget.spent) >= limit) return ["bad", `Budget ${budget.name} is spent.`];
  if (Number(budget.forecast?.p50 ?? 0) > limit) return ["bad", `Not on track: budget ${budget.name} will likely be exceeded.`];
  if (Number(budget.forecast?.p90 ?? 0) > limit) return ["warn", `Budget ${budget.name} may be exceeded.`];
  return ["good", budget.forecast ? "On track: all budgets will likely last." : "All budgets last so far; there is no forecast yet."];
}
