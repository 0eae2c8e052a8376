// Where is my work? How much waits, runs and has ended; why it waits, and when the next one starts.
import { type Answers, caller, isAdmin } from "../api";
import { useAnswer } from "../parts/answers";
import { nowS } from "../parts/clock";
import { ago, count, duration, localTime, plural, seconds } from "../parts/format";
import { Figure, Panel, Shown } from "../parts/panel";
import { link } from "../router";
import { settingOf } from "./holds";

type Told = Answers["OverviewAnswer"];
type Group = Told["waiting"][number];
type Container = Answers["ContainerAnswer"];
type Explanation = Answers["ExplanationAnswer"];

export const OVERVIEW_EACH_S = 3;
const EXPLAINED_EACH_S = 10;
const REASONS_SHOWN = 6;
const DAY_S = 86_400;

export function Work() {
  const asked = useAnswer<Told>("v1/overview", {}, { eachS: OVERVIEW_EACH_S });
  const who = caller.value;
  return (
    <Panel title={isAdmin() ? "Everybody's work" : "Work in your projects"}>
      <Shown asked={asked}>{(told) => <Numbers told={told} />}</Shown>
      {who && !isAdmin() && (
        <p class="note"><a href={link(["containers"], { user: who.user })}>Only what {who.user} submitted</a></p>
      )}
    </Panel>
  );
}

function Numbers({ told }: { told: Told }) {
  const waiting = told.containers.queued + told.containers.locked;
  const { ended } = told;
  return (
    <>
      <div class="figures">
        <Figure value={count(waiting)} of="waiting now" href={link(["containers"], { order: "queue" })} />
        <Figure value={count(told.containers.running)} of="running now" href={link(["containers"], { state: "running" })} />
        <Figure value={count(ended.succeeded)} of="succeeded" tone={ended.succeeded ? "good" : undefined} href={link(["containers"], { state: "succeeded" })} />
        <Figure value={count(ended.failed)} of="failed" tone={ended.failed ? "bad" : undefined} href={link(["containers"], { state: "failed" })} />
        {ended.cancelled > 0 && <Figure value={count(ended.cancelled)} of="cancelled" href={link(["containers"], { state: "cancelled" })} />}
      </div>
      <p class="note">{endedWhen(ended.since)}</p>
      {waiting > 0 && (
        <>
          <h3>Why they wait</h3>
          <Reasons groups={told.waiting} />
          <Next since={told.waiting_since} />
        </>
      )}
    </>
  );
}

/** Return of which time those are that ended. */
function endedWhen(since: string | null): string {
  const began = seconds(since);
  if (began === null || nowS.value - began >= DAY_S - 60) return "Those that ended: in the last 24 hours.";
  return `Those that ended: since the server began, ${duration(nowS.value - began)} ago.`;
}

function Reasons({ groups }: { groups: readonly Group[] }) {
  const rest = groups.slice(REASONS_SHOWN).reduce((sum, each) => sum + each.count, 0);
  return (
    <ul class="rows">
      {groups.slice(0, REASONS_SHOWN).map((each) => (
        <li key={`${each.code} ${each.message}`}>
          <strong>{count(each.count)}</strong>
          <span>
            {sentence(each.message)}
            {each.never && <em class="problem"> They cannot start until the configuration is changed.</em>}
            {each.until && <> May go on {ago(each.until, nowS.value)}.</>}
            {each.limit && isAdmin() && <> The setting: <a href={link(["holds"])}><code>{settingOf(each.limit)}</code></a>.</>}
            {each.sample && <> <a href={link(["containers", each.sample])}>{each.count === 1 ? "This one" : "One of them"}</a></>}
          </span>
        </li>
      ))}
      {rest > 0 && <li><strong>{count(rest)}</strong><span>for {plural(groups.length - REASONS_SHOWN, "other reason")}</span></li>}
    </ul>
  );
}

/** Return a reason as a sentence: it comes as a part of one. */
export function sentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}

/** Who is first in the queue, when it likely starts, and how long anybody has waited at most. */
function Next({ since }: { since: string | null }) {
  const asked = useAnswer<{ items: Container[] }>("v1/containers", { order: "queue", limit: 1 }, { eachS: OVERVIEW_EACH_S });
  const first = asked.answer.value?.items[0];
  return (
    <dl class="facts">
      {since && <div><dt>Longest wait</dt><dd>{duration(nowS.value - (seconds(since) ?? 0))}, since {localTime(since)}</dd></div>}
      {first && <div><dt>First in the queue</dt><dd><a href={link(["containers", first.id])}>{first.name || first.id}</a></dd></div>}
      {first && <Start key={first.id} id={first.id} />}
    </dl>
  );
}

function Start({ id }: { id: string }) {
  const asked = useAnswer<Explanation>(`v1/containers/${encodeURIComponent(id)}/explain`, {}, { eachS: EXPLAINED_EACH_S });
  const estimate = asked.answer.value?.waiting?.estimate;
  if (!estimate) return null;
  return <div><dt>It starts</dt><dd>{startOf(estimate)}</dd></div>;
}

function startOf({ earliest_s: earliest, latest_s: latest, basis }: Answers["EstimateAnswer"]): string {
  if (earliest === null || latest === null) return `nobody knows when: ${basis}`;
  const [least, most] = [duration(earliest), duration(latest)];
  return `likely in ${least === most ? most : `${least} to ${most}`}: ${basis}`;
}
