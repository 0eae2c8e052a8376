// What a team lead asks, and whoever looks at their own work: what is left, who spends it on what,
// and what could be had for less.
import type { Answers } from "../api";
import { caller } from "../api";
import { type Asked, useAnswer } from "../parts/answers";
import { Basis, period } from "../parts/basis";
import { type Budget, courseOf, Meter, runsOutOn, TONE_OF } from "../parts/budget";
import { Numbers, Ranking, Stacked } from "../parts/charts";
import { bytes, count, duration, localTime, plural, usd } from "../parts/format";
import { dayOf, daysLater, largest, onlyOf, rowsLink, sumsBy, total, useLedger } from "../parts/ledger";
import { Figure, Panel, Shown, State } from "../parts/panel";
import { link, setQuery } from "../router";
import type { Month } from "./costs";

type Forecast = Answers["CostForecastAnswer"];
type Budgets = Answers["BudgetsAnswer"];
type Efficiency = Answers["EfficiencyAnswer"];
type Runs = Answers["EndedRunsAnswer"];

const EACH_S = 60;
/** Many runs are looked at for it. */
const RUNS_EACH_S = 300;

export function Team({ month, project }: { month: Month; project: string }) {
  const runs = useAnswer<Runs>("v1/cost/runs", { from: month.from, to: month.to, tz: month.tz, project }, { eachS: RUNS_EACH_S });
  return (
    <>
      <Projects project={project} />
      {!month.isOver && <Left project={project} />}
      {!month.isOver && <Now month={month} />}
      <div class="panels wide">
        <By month={month} project={project} dimension="user" title="By user" />
        <By month={month} project={project} dimension="job" title="By job name" />
        <PerSuccess month={month} project={project} />
        <Lost month={month} project={project} />
        <Waits month={month} project={project} asked={runs} />
      </div>
      <Sizes project={project} />
      <Dearest month={month} asked={runs} />
    </>
  );
}

function Projects({ project }: { project: string }) {
  const known = caller.value?.projects ?? [];
  return (
    <p class="filters">
      <label>
        Project{" "}
        <input list="own-projects" type="search" value={project} placeholder="all that you see" onChange={(event) => setQuery({ project: event.currentTarget.value.trim() })} />
      </label>
      <datalist id="own-projects">{known.map((each) => <option key={each} value={each} />)}</datalist>
    </p>
  );
}

function Left({ project }: { project: string }) {
  const asked = useAnswer<Budgets>("v1/budgets", {}, { on: (change) => change.kind === "budget", eachS: EACH_S });
  return (
    <Panel title="What is left of the budget" note="Each in its own period and zone, direct and caused unless it says more, looked at every 30 seconds. Committed is what runs may still add; the day is that of the forecast's middle. Data transfer, snapshots and taxes are not included.">
      <Shown asked={asked}>
        {(answer) => {
          const items = answer.items.filter((each) => !project || each.scope !== "project" || each.whose === project);
          if (items.length === 0) return <p class="empty">No budget is set for this. An admin sets one under budgets.</p>;
          return (
            <>
              {[...items].sort((a, b) => WORST.indexOf(courseOf(a)) - WORST.indexOf(courseOf(b))).slice(0, 3).map((each) => <p key={each.name} class={`verdict ${TONE_OF[courseOf(each)]}`}>{sentenceOf(each)}</p>)}
              <Numbers label="Budgets" heads={["Budget", "", "Spent", "Committed", "Left", "Limit", "Runs out"]}>
                {items.map((each) => <BudgetRow key={each.name} budget={each} />)}
              </Numbers>
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

const WORST: readonly string[] = ["stopped", "over", "likely over", "may be over", "unknown", "on track"];

/** The answer for one budget. */
function sentenceOf(budget: Budget): string {
  const of = `of ${usd(Number(budget.limit))}`;
  if (Number(budget.spent) >= Number(budget.limit)) {
    return `${budget.name} is spent: ${usd(Number(budget.spent))} ${of}${budget.stopped_until ? "; nothing new starts until its next period" : ""}.`;
  }
  const day = runsOutOn(budget);
  const end = day ? `it runs out on ${day}` : budget.forecast ? `it lasts to the end of ${budget.period}` : "there is no forecast yet";
  return `${budget.name}: ${usd(Number(budget.left))} left ${of}; ${end}.`;
}

function BudgetRow({ budget }: { budget: Budget }) {
  const course = courseOf(budget);
  const day = runsOutOn(budget);
  return (
    <tr>
      <th scope="row">{budget.name} <span class="quiet">({budget.scope} {budget.whose}, {budget.period})</span> <span class={`state ${TONE_OF[course]}`}>{course}</span></th>
      <td><Meter budget={budget} /></td>
      <td class="number">{usd(Number(budget.spent))}</td>
      <td class="number">{usd(Number(budget.committed))}</td>
      <td class="number">{usd(Number(budget.left))}</td>
      <td class="number">{usd(Number(budget.limit))}</td>
      <td class="number">{Number(budget.spent) >= Number(budget.limit) ? "is spent" : (day ?? (budget.forecast ? "not in its period" : "no forecast yet"))}</td>
    </tr>
  );
}

function Now({ month }: { month: Month }) {
  const asked = useAnswer<Forecast>("v1/cost/forecast", { tz: month.tz }, { eachS: EACH_S });
  return (
    <Panel title="This month, and what runs to its end" note="Direct, caused and shared up to now, of all that you see, in US dollars. What runs is reckoned at what its instances cost when they were bought: up to its time limit, or without one for a quarter of what it has run. What waits counts once it begins. Data transfer, snapshots and taxes are not included.">
      <Shown asked={asked}>
        {(answer) => (
          <div class="figures">
            <Figure value={usd(Number(answer.spent))} of={`this month so far (${month.month}, ${answer.time_zone})`} href={rowsLink(month, ["project", "user"])} />
            <Figure value={count(answer.running)} of={answer.running === 1 ? "container runs" : "containers run"} href={link(["containers"], { state: "running" })} />
            <Figure value={usd(Number(answer.running_usd_per_hour))} of="an hour" />
            <Figure value={usd(Number(answer.committed))} of="may be added this month by what runs" />
            <Figure value={usd(Number(answer.forecast.p50))} of={`likely by the end of the month (${usd(Number(answer.forecast.p10))} to ${usd(Number(answer.forecast.p90))})`} />
            <Figure value="Queue" of="what waits" href={link(["containers"], { state: "queued" })} />
          </div>
        )}
      </Shown>
    </Panel>
  );
}

function By({ month, project, dimension, title }: { month: Month; project: string; dimension: string; title: string }) {
  const asked = useLedger(month, { by: dimension, project });
  return (
    <Panel title={title} note={asked.answer.value && <Basis ledger={asked.answer.value} />}>
      <Shown asked={asked}>
        {(ledger) => (
          <Ranking
            label={title}
            heads={[dimension === "job" ? "Job" : "User", "USD", "of all", ...(dimension === "job" ? ["USD per success"] : [])]}
            told={usd}
            empty="There is no data: nothing was booked in this time."
            rows={largest(sumsBy(ledger.items, (row) => row.by[dimension] ?? "")).map(([name, amount]) => ({
              key: name,
              name: name === "(none)" ? "nobody in particular" : name,
              amount,
              href: rowsLink(month, dimension === "user" ? ["job", "state"] : ["user", "outcome"], { ...onlyOf(dimension, name), project }),
              ...(dimension === "job" ? { more: [perSuccess(ledger.items.find((row) => row.by["job"] === name)?.usd_per_success)] } : {}),
            }))}
          />
        )}
      </Shown>
    </Panel>
  );
}

function perSuccess(amount: number | null | undefined): string {
  return amount === null || amount === undefined ? "none succeeded" : usd(Number(amount));
}

function PerSuccess({ month, project }: { month: Month; project: string }) {
  const asked = useLedger(month, { by: "job", step: "day", project });
  return (
    <Panel title="USD per succeeded run" note={asked.answer.value && <Basis ledger={asked.answer.value} of="all that work cost on a day, also what failed, by how many succeeded on it" />}>
      <Shown asked={asked}>
        {(ledger) => {
          const days = new Map<string, { cost: number; succeeded: number }>();
          for (const row of ledger.items) {
            if (row.by["job"] === "(none)") continue;
            const day = dayOf(row.from, month.tz);
            const known = days.get(day) ?? { cost: 0, succeeded: 0 };
            days.set(day, { cost: known.cost + total(row.amounts), succeeded: known.succeeded + (row.succeeded ?? 0) });
          }
          const sum = [...days.values()].reduce((all, each) => ({ cost: all.cost + each.cost, succeeded: all.succeeded + each.succeeded }), { cost: 0, succeeded: 0 });
          return (
            <>
              <div class="figures">
                <Figure value={sum.succeeded > 0 ? usd(sum.cost / sum.succeeded) : "no data"} of={`for each of ${plural(sum.succeeded, "run")} that succeeded`} href={rowsLink(month, ["job"], { project })} />
              </div>
              <PerDay days={days} month={month} />
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

function PerDay({ days, month }: { days: ReadonlyMap<string, { cost: number; succeeded: number }>; month: Month }) {
  return (
    <Stacked
      label="USD per succeeded run by day"
      series={[{ name: "USD per succeeded run", fill: "fill-work" }]}
      told={usd}
      columns={[...days].map(([day, each]) => ({
        name: day,
        values: [each.succeeded > 0 ? each.cost / each.succeeded : null],
        href: rowsLink({ tz: month.tz, from: day, to: daysLater(day, 1) }, ["job"]),
      }))}
    />
  );
}

const WHY: Record<string, string> = {
  "lost:failed": "failed by itself", "lost:lost": "its instance was lost", "lost:preempted": "made way or was taken back", "lost:cancelled": "was cancelled",
};

function Lost({ month, project }: { month: Month; project: string }) {
  const asked = useLedger(month, { by: "outcome", project });
  return (
    <Panel title="Lost work" note={asked.answer.value && <Basis ledger={asked.answer.value} of="what of direct came to nothing" />}>
      <Shown asked={asked}>
        {(ledger) => (
          <Ranking
            label="Lost work by outcome"
            heads={["Why", "USD", "of lost"]}
            told={usd}
            empty={ledger.items.length === 0 ? "There is no data: nothing was booked in this time." : "Nothing was lost: $0.00."}
            rows={largest(sumsBy(ledger.items, (row) => row.by["outcome"] ?? "", (amounts) => Number(amounts.lost_work)))
              .filter(([, amount]) => amount > 0)
              .map(([name, amount]) => ({ key: name, name: WHY[name] ?? name, amount, href: rowsLink(month, ["outcome", "job", "user"], { project }) }))}
          />
        )}
      </Shown>
    </Panel>
  );
}

function Sizes({ project }: { project: string }) {
  const asked = useAnswer<Efficiency>("v1/efficiency", { project }, { eachS: EACH_S });
  return (
    <Panel title="Asked against used" note="Of the latest 20,000 runs that succeeded, whenever that was; from 20 runs on a smaller size is suggested. The saving is in US dollars over the runs that were counted, and null where no cheaper type can be bought.">
      <Shown asked={asked}>
        {(answer) => {
          if (answer.items.length === 0) return <p class="empty">There is no data: no run that succeeded was measured yet.</p>;
          const saving = answer.items.reduce((sum, each) => sum + Number(each.saving?.usd ?? 0), 0);
          return (
            <>
              <div class="figures"><Figure value={usd(saving)} of="could have been saved by asking for less" /></div>
              <Numbers label="Asked against used" heads={["Work", "Runs", "Asked", "Used, 95th percentile", "Ask for", "Saving"]}>
                {answer.items.slice(0, 12).map((each) => (
                  <tr key={`${each.user} ${each.project} ${each.name} ${each.task} ${each.asked.cpus} ${each.asked.memory}`}>
                    <th scope="row"><a href={link(["containers"], { name: each.name, user: each.user })}>{each.name || "without a name"}</a> <span class="quiet">{each.task ?? ""} of {each.user}</span></th>
                    <td class="number">{count(each.runs)}</td>
                    <td class="number">{each.asked.cpus} cpus, {bytes(each.asked.memory)}</td>
                    <td class="number">{each.cpus_p95 === null ? "no data" : `${each.cpus_p95.toFixed(2)} cpus`}, {each.peak_memory_p95_bytes === null ? "no data" : bytes(each.peak_memory_p95_bytes)}</td>
                    <td class="number">{suggestion(each)}</td>
                    <td class="number">{each.saving ? `${usd(Number(each.saving.usd))}, ${each.saving.now} → ${each.saving.instead}` : "none"}</td>
                  </tr>
                ))}
              </Numbers>
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

function suggestion({ suggested, runs_missing, asked }: Answers["EfficiencyItem"]): string {
  if (runs_missing > 0) return `${plural(runs_missing, "run")} more to tell`;
  if (!suggested) return "as it is";
  return `${suggested.cpus ?? asked.cpus} cpus, ${bytes(suggested.memory ?? asked.memory)}`;
}

function aboutRuns(answer: Runs | undefined, month: Month): string {
  const partly = answer && answer.complete === false ? " Only the latest 20,000 that were submitted are looked at." : "";
  return `Of ${answer ? plural(answer.ended, "container") : "containers"} that ended in ${period(month.from, month.to)} (${month.tz}), as of ${answer ? localTime(answer.as_of) : "now"}. In US dollars, direct: what all their attempts cost, once their hours are booked. Not included: what they caused, idle time, data transfer, taxes.${partly}`;
}

function Waits({ month, project, asked }: { month: Month; project: string; asked: Asked<Runs> }) {
  return (
    <Panel title="Wait against cost" note={aboutRuns(asked.answer.value, month)}>
      <Shown asked={asked}>
        {(answer) => (
          answer.by_type.length === 0 ? <p class="empty">There is no data: nothing with a place has ended in this time.</p> : (
            <Numbers label="Wait against cost" heads={["Type", "Market", "Runs", "Median wait", "90th percentile", "USD each"]}>
              {answer.by_type.map((each) => (
                <tr key={`${each.instance_type} ${each.market}`}>
                  <th scope="row"><a href={rowsLink(month, ["job", "user"], { type: each.instance_type, project })}>{each.instance_type}</a></th>
                  <td class="number">{each.market}</td>
                  <td class="number">{count(each.runs)}</td>
                  <td class="number">{duration(each.waited_p50_s)}</td>
                  <td class="number">{duration(each.waited_p90_s)}</td>
                  <td class="number">{usd(Number(each.cost_usd) / each.runs)}</td>
                </tr>
              ))}
            </Numbers>
          )
        )}
      </Shown>
    </Panel>
  );
}

function Dearest({ month, asked }: { month: Month; asked: Asked<Runs> }) {
  return (
    <Panel title="The dearest runs" note={aboutRuns(asked.answer.value, month)}>
      <Shown asked={asked}>
        {(answer) => (
          answer.dearest.length === 0 ? <p class="empty">{answer.ended === 0 ? "There is no data: nothing has ended in this time." : "Nothing that ended has a cost yet: hours are booked as they end."}</p> : (
            <Numbers label="The dearest runs" heads={["Container", "USD", "State", "Job", "User", "Project", "Type", "Waited", "Ended"]}>
              {answer.dearest.map((each) => (
                <tr key={each.container}>
                  <th scope="row"><a href={link(["containers", each.container])}>{each.name || each.container}</a></th>
                  <td class="number">{usd(Number(each.cost_usd))}</td>
                  <td class="number"><State word={each.state} /></td>
                  <td class="number">{each.job ? <a href={link(["jobs", each.job])}>{each.job}</a> : "of its own"}</td>
                  <td class="number">{each.user}</td>
                  <td class="number">{each.project}</td>
                  <td class="number">{each.instance_type ?? "no place"}</td>
                  <td class="number">{each.waited_s === null ? "no data" : duration(each.waited_s)}</td>
                  <td class="number">{localTime(each.finished_at)}</td>
                </tr>
              ))}
            </Numbers>
          )
        )}
      </Shown>
    </Panel>
  );
}
