// One job: how far it is, its tasks and what follows what, its arrays, what it cost.
import { type Answers, send } from "../api";
import { Action } from "../parts/actions";
import { useAnswer } from "../parts/answers";
import { ArrayGrid } from "../parts/array_grid";
import { nowS } from "../parts/clock";
import { Facts } from "../parts/facts";
import { ago, localTime, usd } from "../parts/format";
import { Panel, Shown, State } from "../parts/panel";
import { Progress } from "../parts/progress";
import { TaskGraph } from "../parts/task_graph";
import { link } from "../router";

type Job = Answers["JobAnswer"];

const FINAL = new Set(["succeeded", "failed", "cancelled"]);

export function JobView({ id }: { id: string }) {
  const asked = useAnswer<Job>(`v1/jobs/${encodeURIComponent(id)}`, { costs: "task" }, {
    on: (change) => change.id === id || change.data["job"] === id,
  });
  return <Shown asked={asked}>{(job) => <Whole job={job} again={asked.again} />}</Shown>;
}

function Whole({ job, again }: { job: Job; again: () => void }) {
  const tasks = job.tasks ?? [];
  const path = `v1/jobs/${encodeURIComponent(job.id)}`;
  return (
    <>
      <p class="trail"><a href={link(["jobs"])}>Jobs</a> / {job.id}</p>
      <h1>{job.name || job.id} <State word={job.held ? "held" : job.state} /></h1>
      {!FINAL.has(job.state) && !job.cancel_requested && (
        <p class="controls">
          <Action
            name="Change the priority"
            question="Of those that wait, who has the highest priority begins first."
            act={async (fields) => { await send("PATCH", path, { priority: Number(fields.get("priority")) }); again(); }}
          >
            <label>Priority (0 to 1000) <input name="priority" type="number" min="0" max="1000" required value={job.priority} /></label>
          </Action>
          <Action
            name={job.held ? "Release" : "Hold"}
            question={job.held ? "Let it go on?" : "Hold it? What runs goes on; nothing of it begins until it is released."}
            act={async () => { await send("PATCH", path, { held: !job.held }); again(); }}
          />
          <Action name="Cancel" isGrave question={`Cancel ${job.name || job.id}? What runs is told to end. This cannot be undone.`} act={async () => { await send("POST", `${path}/cancel`); again(); }} />
        </p>
      )}
      <div class="panels">
        <Panel title="Progress">
          <Progress counts={job.counts} />
          {(job.trouble ?? job.reason) && <p class="problem">{(job.trouble ?? job.reason)?.message}</p>}
          {job.waiting_for && <p>{job.waiting_for.message}</p>}
        </Panel>
        <Panel title="What it is">
          <Facts
            of={[
              ["Type", job.type],
              ["User", job.user],
              ["Project", job.project],
              ["Priority", String(job.priority)],
              ["Labels", Object.entries(job.labels).map(([name, value]) => `${name}=${value}`).join(", ")],
              ["Submitted", `${localTime(job.created_at)} (${ago(job.created_at, nowS.value)})`],
              ["Ended", job.finished_at && localTime(job.finished_at)],
              ["Begins again", job.next_launch && localTime(job.next_launch)],
              ["Part of", job.parent && <a href={link([job.parent.startsWith("c-") ? "containers" : "jobs", job.parent])}>{job.parent}</a>],
            ]}
          />
        </Panel>
        {job.costs && (
          <Panel title="Cost" note="In US dollars, of attempts that have ended.">
            <Facts
              of={[
                ["Total", usd(Number(job.costs.total_usd))],
                ["Came to nothing", job.costs.lost_work_usd !== null && usd(Number(job.costs.lost_work_usd))],
                ...job.costs.tasks.filter((part) => part.task).map((part) => [part.task, usd(Number(part.cost_usd))] as const),
              ]}
            />
          </Panel>
        )}
      </div>
      {tasks.length > 1 && <Panel title="What follows what"><TaskGraph tasks={tasks} /></Panel>}
      {tasks.map((task) => (
        <Panel key={task.name} title={task.name || "Containers"}>
          <Progress counts={task.counts} />
          {task.array && <ArrayGrid jobId={job.id} task={task.name} size={task.size ?? 1} />}
          <p class="note"><a href={link(["containers"], { job: job.id, task: task.name })}>Its containers</a></p>
        </Panel>
      ))}
    </>
  );
}
