// The tasks of a job, drawn as what follows what: in columns, by how long the longest way to each is.
import type { Answers } from "../api";
import { told } from "./progress";

type Task = Answers["JobTaskAnswer"];

const WIDTH_PX = 190;
const HEIGHT_PX = 54;
const BETWEEN_X_PX = 60;
const BETWEEN_Y_PX = 18;

interface Box {
  readonly task: Task;
  readonly x: number;
  readonly y: number;
}

/** Return the column of each task: one more than the last of those that it follows. */
export function columnsOf(tasks: readonly Task[]): Map<string, number> {
  const byName = new Map(tasks.map((each) => [each.name, each]));
  const found = new Map<string, number>();
  const columnOf = (task: Task): number => {
    const known = found.get(task.name);
    if (known !== undefined) return known;
    // What follows itself is refused when it is submitted: each chain ends.
    const before = namesBefore(task).map((name) => byName.get(name)).filter((each) => each !== undefined);
    const column = before.length === 0 ? 0 : 1 + Math.max(...before.map(columnOf));
    found.set(task.name, column);
    return column;
  };
  for (const task of tasks) columnOf(task);
  return found;
}

function namesBefore(task: Task): string[] {
  return task.after.map((each) => each.of);
}

export function TaskGraph({ tasks }: { tasks: readonly Task[] }) {
  const columns = columnsOf(tasks);
  const heights = new Map<number, number>();
  const boxes = new Map<string, Box>();
  for (const task of tasks) {
    const column = columns.get(task.name) ?? 0;
    const row = heights.get(column) ?? 0;
    heights.set(column, row + 1);
    boxes.set(task.name, { task, x: column * (WIDTH_PX + BETWEEN_X_PX), y: row * (HEIGHT_PX + BETWEEN_Y_PX) });
  }
  const width = (Math.max(...columns.values()) + 1) * (WIDTH_PX + BETWEEN_X_PX) - BETWEEN_X_PX;
  const height = Math.max(...heights.values()) * (HEIGHT_PX + BETWEEN_Y_PX) - BETWEEN_Y_PX;
  const label = tasks.map((task) => {
    const before = namesBefore(task).filter((name) => boxes.has(name));
    return before.length > 0 ? `${task.name} after ${before.join(" and ")}` : task.name;
  }).join("; ");
  return (
    <div class="scroll-x" tabIndex={0} role="region" aria-label="The graph of its tasks">
      <svg class="dag" width={width} height={height} viewBox={`-1 -1 ${width + 2} ${height + 2}`} role="img" aria-label={label}>
        {[...boxes.values()].flatMap((box) =>
          namesBefore(box.task).map((name) => {
            const from = boxes.get(name);
            if (!from) return null;
            const [x1, y1] = [from.x + WIDTH_PX, from.y + HEIGHT_PX / 2];
            const [x2, y2] = [box.x, box.y + HEIGHT_PX / 2];
            const bend = (x2 - x1) / 2;
            return <path key={`${name} ${box.task.name}`} d={`M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} />;
          }),
        )}
        {[...boxes.values()].map(({ task, x, y }) => (
          <g key={task.name} transform={`translate(${x} ${y})`} class={toneOf(task)}>
            <title>{`${task.name}: ${told(task.counts)}`}</title>
            <rect width={WIDTH_PX} height={HEIGHT_PX} rx="6" />
            <text x="10" y="22">{shortened(task.name || "task", 22)}</text>
            <text x="10" y="42" class="quiet">{shortened(told(task.counts), 27)}</text>
          </g>
        ))}
      </svg>
    </div>
  );
}

function toneOf(task: Task): string {
  const { failed, running, succeeded, total } = task.counts;
  if (failed > 0) return "bad";
  if (running > 0) return "busy";
  return succeeded === total && total > 0 ? "good" : "calm";
}

function shortened(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
