// What keeps instances from being created: holds and their ends, limits, and budgets that stop. For
// admins: each limit by its setting, and what raising it does.
import type { Answers } from "../api";
import { useAnswer } from "../parts/answers";
import { nowS } from "../parts/clock";
import { ago, count, localTime, usd } from "../parts/format";
import { Gauge } from "../parts/gauge";
import { Panel, Shown } from "../parts/panel";

type Told = Answers["HoldsAnswer"];
type Hold = Told["holds"][number];
type Limit = Told["limits"][number];
type Budget = Answers["BudgetsAnswer"]["items"][number];

export const HOLDS_EACH_S = 5;
const BUDGETS_EACH_S = 30;

const CAUSES: Record<string, string> = {
  capacity: "no capacity", quota: "quota", rate_limit: "rate limit", error: "error", boot_failure: "boots fail",
};
const REMEDIES: Record<string, string> = {
  capacity: "Let work use other instance_types, or other zones.",
  quota: "Ask the cloud for a larger quota, or let work use other instance_types.",
  rate_limit: "It passes by itself; lower pool.max_cloud_ops_per_second if it comes often.",
  error: "Mend what the message names; it is tried again by itself.",
  boot_failure: "Look at why instances do not become ready: image, network, start script.",
};
const RAISING: Record<string, string> = {
  max_instances: "Raise it to let more instances be there at once, which may cost more an hour.",
  max_concurrent_creates: "Raise it to let more instances be created at once, as far as the cloud takes it.",
  max_cloud_ops_per_second: "Raise it to ask the cloud more often, as far as its rate limits allow.",
  max_containers: "It is what this machine can serve: a larger machine, or fewer and larger containers, raise it.",
  supervisor_fraction: "Raise it to let more supervisors run, which leaves less room for their work.",
  max_hourly_spend: "Raise it to let instances cost more an hour together.",
  max_hourly_spend_per_project: "Raise it to let what each project runs cost more an hour.",
  max_hourly_spend_per_user: "Raise it to let what each user runs cost more an hour.",
};

const SECTIONS: Record<string, string> = { max_concurrent_creates: "pool", max_cloud_ops_per_second: "pool" };

/** Return a limit's name as it is in the configuration, with its section. */
export function settingOf(name: string): string {
  return name in RAISING ? `${SECTIONS[name] ?? "scheduler"}.${name}` : name;
}

/** Return why a hold is there, in two words. */
export function causeOf(hold: Hold): string {
  return CAUSES[hold.cause] ?? hold.cause.replaceAll("_", " ");
}

/** Return what to do about a hold, "" where that is not known. */
export function remedyOf(hold: Hold): string {
  return REMEDIES[hold.cause] ?? "";
}

/** Return what raising a limit does, "" where that is not known. */
export function adviceOn(name: string): string {
  return RAISING[name] ?? "";
}

/** Return how much of a limit is used. */
export function limitText(limit: Limit): string {
  const isMoney = limit.name.startsWith("max_hourly_spend");
  const text = isMoney ? usd : count;
  const whole = `${text(limit.limit)}${isMoney ? " an hour" : ""}`;
  return limit.used === null ? `${whole}; nobody knows how much is used` : `${text(limit.used)} of ${whole} used`;
}

export function Holds() {
  const asked = useAnswer<Told>("v1/holds", {}, { eachS: HOLDS_EACH_S });
  return (
    <>
      <h1>Holds and limits</h1>
      <Shown asked={asked}>
        {(told) => (
          <>
            <Panel title="Creates on hold">
              {told.holds.length === 0 ? <p class="empty">Nothing keeps instances from being created.</p> : <HoldTable holds={told.holds} />}
            </Panel>
            <Panel title="Limits" note="Settings of the configuration: after a change, start the server again.">
              <LimitTable limits={told.limits} />
            </Panel>
          </>
        )}
      </Shown>
      <Budgets />
    </>
  );
}

function HoldTable({ holds }: { holds: readonly Hold[] }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of holds">
      <table class="plain">
        <thead><tr>{["Cause", "What of", "Since", "Tried again", "Why", "What to do"].map((name) => <th key={name} scope="col">{name}</th>)}</tr></thead>
        <tbody>
          {holds.map((each) => (
            <tr key={`${each.cause} ${each.instance_type} ${each.quota_group} ${each.since} ${each.message}`}>
              <td>{causeOf(each)}</td>
              <td>{scopeOf(each)}</td>
              <td>{ago(each.since, nowS.value)}</td>
              <td><time title={localTime(each.until)}>{ago(each.until, nowS.value)}</time></td>
              <td class="wide">{each.message}</td>
              <td class="wide">{remedyOf(each)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function scopeOf(hold: Hold): string {
  const what = [hold.instance_type, hold.quota_group && `quota group ${hold.quota_group}`].filter(Boolean).join(", ") || "all instance types";
  return hold.preemptible === null ? what : `${what}, ${hold.preemptible ? "preemptible" : "on demand"}`;
}

function LimitTable({ limits }: { limits: readonly Limit[] }) {
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="Table of limits">
      <table class="plain">
        <thead><tr>{["Setting", "Of", "Used", "Now", "What raising it does"].map((name) => <th key={name} scope="col">{name}</th>)}</tr></thead>
        <tbody>
          {limits.map((each) => (
            <tr key={`${each.name} ${each.whose}`}>
              <td><code>{settingOf(each.name)}</code></td>
              <td>{each.whose ?? "all"}</td>
              <td>{each.used === null ? limitText(each) : <Gauge label={each.name} used={each.used} limit={each.limit} text={limitText(each)} />}</td>
              <td>{stateOf(each)}</td>
              <td class="wide">{adviceOn(each.name)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function stateOf(limit: Limit) {
  if (limit.blocking) return <span class="state bad">work waits for it</span>;
  return limit.reached ? <span class="state warn">reached</span> : <span class="state good">has room</span>;
}

function Budgets() {
  const asked = useAnswer<Answers["BudgetsAnswer"]>("v1/budgets", {}, { eachS: BUDGETS_EACH_S, on: (change) => change.kind === "budget" });
  return (
    <Panel title="Budgets that stop work">
      <Shown asked={asked}>
        {(told) => {
          const stopping = told.items.filter((each) => each.stopped_until !== null);
          if (stopping.length === 0) return <p class="empty">No budget keeps work from beginning.</p>;
          return <ul class="rows marked">{stopping.map((each) => <Stopped key={each.name} budget={each} />)}</ul>;
        }}
      </Shown>
    </Panel>
  );
}

function Stopped({ budget }: { budget: Budget }) {
  return (
    <li class="bad">
      <strong>{budget.name}</strong>
      <span>
        {budget.message} {usd(Number(budget.spent))} of {usd(Number(budget.limit))} are spent. New work may begin{" "}
        <time title={localTime(budget.stopped_until)}>{ago(budget.stopped_until, nowS.value)}</time>.
      </span>
    </li>
  );
}
