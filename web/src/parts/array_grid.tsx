// An array as a grid: a cell for each element, in its state's colour, which leads to its container.
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Answers, get, Refusal } from "../api";
import { follow } from "../live";
import { colour, scheme } from "./colours";
import { count } from "./format";
import { link } from "../router";

type Container = Answers["ContainerAnswer"];

const CELL_PX = 12;
const GAP_PX = 2;
const PAGE = 1000;
const MOST = 10_000;
const COLOURS: Record<string, string> = {
  succeeded: "good", failed: "bad", cancelled: "line", running: "busy", locked: "warn", queued: "quiet",
};

interface Cell {
  readonly id: string;
  readonly index: number;
  readonly state: string;
}

export function ArrayGrid({ jobId, task, size }: { jobId: string; task: string; size: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const cells = useSignal<ReadonlyMap<number, Cell>>(new Map());
  const pointed = useSignal<Cell | null>(null);
  const problem = useSignal("");
  const width = useSignal(600);
  const shown = Math.min(size, MOST);
  const perRow = Math.max(1, Math.floor(width.value / (CELL_PX + GAP_PX)));

  useEffect(() => {
    const abort = new AbortController();
    const load = async (): Promise<void> => {
      let cursor = "";
      try {
        do {
          const page = await get<{ items: Container[]; next_cursor: string | null }>(
            "v1/containers", { job: jobId, task, limit: PAGE, cursor }, abort.signal,
          );
          put(page.items.map(cellOf));
          cursor = page.next_cursor ?? "";
        } while (cursor && cells.value.size < MOST);
      } catch (error) {
        if (abort.signal.aborted) return;
        if (!(error instanceof Refusal)) throw error;
        problem.value = error.whole;
      }
    };
    const put = (some: readonly Cell[]): void => {
      cells.value = new Map([...cells.value, ...some.map((each) => [each.index, each] as const)]);
    };
    void load();
    const unfollow = follow((changes) => {
      const own = changes
        .filter((each) => each.kind === "container" && each.data["job"] === jobId && (each.data["task"] ?? "") === task)
        .map((each) => cellOf(each.data as unknown as Container));
      if (own.length > 0) put(own);
    });
    return () => {
      abort.abort();
      unfollow();
    };
  }, [jobId, task]);
  useEffect(() => {
    const parent = canvas.current?.parentElement;
    if (!parent) return;
    const observer = new ResizeObserver(() => { width.value = parent.clientWidth; });
    observer.observe(parent);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const rows = Math.ceil(shown / perRow);
    const scale = devicePixelRatio;
    element.width = Math.min(perRow, shown) * (CELL_PX + GAP_PX) * scale;
    element.height = rows * (CELL_PX + GAP_PX) * scale;
    element.style.width = `${element.width / scale}px`;
    element.style.height = `${element.height / scale}px`;
    context.scale(scale, scale);
    const colours = Object.fromEntries(Object.entries(COLOURS).map(([state, name]) => [state, colour(name)]));
    for (const cell of cells.value.values()) {
      if (cell.index >= shown) continue;
      context.fillStyle = colours[cell.state] ?? "gray";
      context.fillRect((cell.index % perRow) * (CELL_PX + GAP_PX), Math.floor(cell.index / perRow) * (CELL_PX + GAP_PX), CELL_PX, CELL_PX);
    }
  }, [cells.value, perRow, scheme.value]);

  const cellAt = (event: MouseEvent): Cell | null => {
    const step = CELL_PX + GAP_PX;
    const column = Math.floor(event.offsetX / step);
    return column < perRow ? (cells.value.get(Math.floor(event.offsetY / step) * perRow + column) ?? null) : null;
  };
  const states = [...new Set([...cells.value.values()].map((each) => each.state))].sort();
  return (
    <figure class="grid">
      {problem.value && <p class="problem" role="alert">{problem.value}</p>}
      <canvas
        ref={canvas}
        role="img"
        aria-label={states.map((state) => `${count([...cells.value.values()].filter((each) => each.state === state).length)} ${state}`).join(", ")}
        onMouseMove={(event) => { pointed.value = cellAt(event); }}
        onMouseLeave={() => { pointed.value = null; }}
        onClick={(event) => { const cell = cellAt(event); if (cell) location.hash = link(["containers", cell.id]); }}
      />
      <figcaption>
        {pointed.value ? `Element ${pointed.value.index}: ${pointed.value.state}` : states.map((state) => (
          <a key={state} href={link(["containers"], { job: jobId, state })} class="legend">
            <span class={`part ${state}`} /> {state}
          </a>
        ))}
        {size > MOST && ` The first ${count(MOST)} of ${count(size)}.`}
      </figcaption>
    </figure>
  );
}

function cellOf(one: Container): Cell {
  return { id: one.id, index: one.array_index ?? 0, state: one.state };
}
