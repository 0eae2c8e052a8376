// One container: where it is and why, its attempts in time, its log, what it took and what it cost.
import type { Answers } from "../api";
import { caller, send } from "../api";
import { Action } from "../parts/actions";
import { useAnswer } from "../parts/answers";
import { nowS } from "../parts/clock";
import { Facts } from "../parts/facts";
import { ago, bytes, count, duration, localTime, percent, seconds, usd } from "../parts/format";
import { Log } from "../parts/log";
import { Panel, Shown, State } from "../parts/panel";
import { link } from "../router";

type Container = Answers["ContainerAnswer"];
type Attempt = Answers["AttemptAnswer"];
type Explanation = Answers["ExplanationAnswer"];

const FINAL = new Set(["succeeded", "failed", "cancelled"]);

export function ContainerView({ id }: { id: string }) {
  const on = (change: { kind: string; id: string }): boolean => change.kind === "container" && change.id === id;
  const path = `v1/containers/${encodeURIComponent(id)}`;
  const asked = useAnswer<Container>(path, { costs: true }, { on });
  const explained = useAnswer<Explanation>(`${path}/explain`, {}, { on, eachS: 10 });
  return (
    <Shown asked={asked}>
      {(one) => {
        const last = one.attempts.at(-1);
        return (
          <>
            <p class="trail"><a href={link(["containers"])}>Queue</a> / {one.id}</p>
            <h1>{one.name || one.id} <State word={one.state} /></h1>
            <Controls one={one} again={asked.again} />
            <div class="panels">
              <Panel title="Why">
                <Shown asked={explained}>{(told) => <Why told={told} />}</Shown>
              </Panel>
              <Panel title="What it is"><Spec one={one} /></Panel>
              <Panel title="Cost" note="In US dollars; what runs counts up to now. Transfer, snapshots and taxes are not included.">
                <Facts
                  of={[
                    ["So far", usd(Number(one.cost_so_far_usd ?? one.cost_usd))],
                    ["Attempts", count(one.attempt_count)],
                  ]}
                />
              </Panel>
              <Panel title="Taken">{last?.usage ? <Usage one={one} usage={last.usage} attempt={last} /> : <p class="empty">What an attempt took is known once it has ended.</p>}</Panel>
            </div>
            <Panel title="Attempts"><Attempts one={one} /></Panel>
            {last && (
              <Panel title="Log">
                <Log containerId={one.id} attemptId={last.id} writtenBytes={{ stdout: last.stdout_bytes, stderr: last.stderr_bytes }} />
              </Panel>
            )}
          </>
        );
      }}
    </Shown>
  );
}

function Controls({ one, again }: { one: Container; again: () => void }) {
  if (FINAL.has(one.state) || caller.value?.role === "metrics") return null;
  const path = `v1/containers/${encodeURIComponent(one.id)}`;
  return (
    <p class="controls">
      <Action
        name="Change the priority"
        question="Of those that wait, who has the highest priority begins first. 0 holds it back, and ends an attempt that runs."
        act={async (fields) => { await send("PATCH", path, { priority: Number(fields.get("priority")) }); again(); }}
      >
        <label>Priority (0 to 1000) <input name="priority" type="number" min="0" max="1000" required value={one.priority} /></label>
      </Action>
      {!one.cancel_requested && (
        <Action name="Cancel" isGrave question={`Cancel ${one.name || one.id}? What runs is told to end. This cannot be undone.`} act={async () => { await send("POST", `${path}/cancel`); again(); }} />
      )}
    </p>
  );
}

function Why({ told }: { told: Explanation }) {
  const waiting = told.waiting;
  return (
    <>
      <p class="sentence">{told.sentence}</p>
      {waiting && (
        <Facts
          of={[
            ["Place", waiting.position ? `${count(waiting.position)} of ${count(waiting.queue_length ?? waiting.position)}` : ""],
            ["Starts", startsIn(waiting.estimate)],
            ["Limits that are reached", waiting.limits.filter((each) => each.reached).map((each) => `${each.name} (${count(each.used ?? 0)} of ${count(each.limit)})`).join(", ")],
            ["Creates wait", waiting.holds.map((each) => each.message).join(" ")],
          ]}
        />
      )}
      {told.history.length > 0 && (
        <details>
          <summary>What happened to it</summary>
          <ol class="history">
            {told.history.map((each, index) => <li key={index}><time>{localTime(each.at)}</time> {each.message}</li>)}
          </ol>
        </details>
      )}
    </>
  );
}

function startsIn(estimate: Answers["EstimateAnswer"]): string {
  if (estimate.earliest_s === null || estimate.latest_s === null) return `Nobody knows: ${estimate.basis}`;
  return `in ${duration(estimate.earliest_s)} to ${duration(estimate.latest_s)} (${estimate.basis})`;
}

function Spec({ one }: { one: Container }) {
  const gpus = typeof one.gpus === "number" ? one.gpus : one.gpus.count;
  return (
    <Facts
      of={[
        ["Command", <code>{one.command.join(" ")}</code>],
        ["Image", one.image],
        ["Asks for", [`${one.cpus} cpus`, bytes(one.memory), gpus ? `${gpus} GPUs` : ""].filter(Boolean).join(", ")],
        ["Priority", count(one.priority)],
        ["User", one.user],
        ["Project", one.project],
        ["Job", one.job && <a href={link(["jobs", one.job])}>{one.job}{one.task ? ` ${one.task}` : ""}{one.array_index === null ? "" : `[${one.array_index}]`}</a>],
        ["Labels", Object.entries(one.labels).map(([name, value]) => `${name}=${value}`).join(", ")],
        ["Submitted", `${localTime(one.created_at)} (${ago(one.created_at, nowS.value)})`],
        ["Instance", one.instance && `${one.instance} (${one.instance_type})`],
        ["Exit code", one.exit_code === null ? "" : String(one.exit_code)],
        ["Ended since", one.reason?.message],
        ["In doubt", one.doubt],
      ]}
    />
  );
}

function Usage({ one, usage, attempt }: { one: Container; usage: Answers["UsageAnswer"]; attempt: Attempt }) {
  const began = seconds(attempt.started_at);
  const ended = seconds(attempt.finished_at);
  const tookS = began !== null && ended !== null ? ended - began : null;
  const cpus = usage.cpu_seconds !== null && tookS ? usage.cpu_seconds / tookS : null;
  return (
    <Facts
      of={[
        ["Memory at most", usage.peak_memory_bytes !== null && `${bytes(usage.peak_memory_bytes)} of ${bytes(one.memory)} (${percent(usage.peak_memory_bytes / one.memory)})`],
        ["Processors", cpus !== null && `${cpus.toFixed(2)} of ${one.cpus} (${percent(cpus / one.cpus)})`],
        ["Read", usage.read_bytes !== null && bytes(usage.read_bytes)],
        ["Written", usage.written_bytes !== null && bytes(usage.written_bytes)],
        ["GPU memory at most", usage.gpu_peak_memory_bytes !== null && bytes(usage.gpu_peak_memory_bytes)],
        ["GPU used", usage.gpu_mean_utilization !== null && percent(usage.gpu_mean_utilization)],
      ]}
    />
  );
}

interface Stage {
  readonly name: string;
  readonly from: number;
  readonly until: number;
}

function stagesOf(attempt: Attempt): Stage[] {
  const ends = seconds(attempt.finished_at) ?? nowS.value;
  const times: [string, number | null][] = [
    ["placed", seconds(attempt.created_at)],
    ["fetching its image", seconds(attempt.pulling_since)],
    ["starting", seconds(attempt.pulled_at)],
    ["running", seconds(attempt.started_at)],
  ];
  const known = times.filter((each): each is [string, number] => each[1] !== null);
  return known.map(([name, from], index) => ({ name, from, until: Math.max(from, known[index + 1]?.[1] ?? ends) }));
}

function Attempts({ one }: { one: Container }) {
  const submitted = seconds(one.created_at) ?? nowS.value;
  const ends = seconds(one.finished_at) ?? nowS.value;
  const span = Math.max(ends - submitted, 0.001);
  if (one.attempts.length === 0) return <p class="empty">It has not been placed yet; it has waited for {duration(nowS.value - submitted)}.</p>;
  return (
    <table class="plain">
      <thead>
        <tr>
          {["Attempt", "Instance", "Outcome", "In time", "Ran", "Cost"].map((name) => <th key={name} scope="col">{name}</th>)}
        </tr>
      </thead>
      <tbody>
        {one.attempts.map((attempt) => (
          <tr key={attempt.id}>
            <td>{attempt.number}</td>
            <td>{attempt.instance} <span class="quiet">{attempt.instance_type}</span></td>
            <td>
              {attempt.outcome ? <State word={attempt.outcome} /> : <State word="running" />}{" "}
              <span class="quiet">{attempt.reason?.message}</span>
            </td>
            <td class="bar" aria-label={stagesOf(attempt).map((stage) => `${stage.name} ${duration(stage.until - stage.from)}`).join(", ")}>
              {stagesOf(attempt).map((stage) => (
                <span
                  key={stage.name}
                  class={`stage ${stage.name.split(" ")[0]}`}
                  title={`${stage.name}: ${duration(stage.until - stage.from)}`}
                  style={{ left: `${((stage.from - submitted) / span) * 100}%`, width: `${Math.max(0.3, ((stage.until - stage.from) / span) * 100)}%` }}
                />
              ))}
            </td>
            <td>{attempt.started_at ? duration((seconds(attempt.finished_at) ?? nowS.value) - (seconds(attempt.started_at) ?? 0)) : ""}</td>
            <td>{attempt.cost_usd === undefined || attempt.cost_usd === null ? "" : usd(Number(attempt.cost_usd))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
