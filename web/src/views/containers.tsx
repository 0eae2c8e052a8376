// The queue: containers that one sees, newest first or the next in line first, with why they wait.
import { computed } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Answers } from "../api";
import { usePages } from "../parts/answers";
import { nowS } from "../parts/clock";
import { ago, count, duration, seconds, usd } from "../parts/format";
import { State } from "../parts/panel";
import { type Column, Table } from "../parts/table";
import { link, place, setQuery } from "../router";

type Container = Answers["ContainerAnswer"];

/** What is chosen by, and the states that it stands for. */
const CHOICES: readonly (readonly [string, readonly string[]])[] = [
  ["waiting", ["queued", "locked"]],
  ["running", ["running"]],
  ["succeeded", ["succeeded"]],
  ["failed", ["failed"]],
  ["cancelled", ["cancelled"]],
];
const FILTERS = [
  ["user", "User"],
  ["project", "Project"],
  ["name", "Name"],
  ["job", "Job"],
  ["task", "Task"],
  ["instance", "Instance"],
] as const;

const COLUMNS: readonly Column<Container>[] = [
  { name: "Container", cell: (one) => <a href={link(["containers", one.id])}>{one.name || one.id}</a> },
  { name: "State", cell: (one) => <State word={one.state} /> },
  { name: "Why", cell: (one) => <span title={why(one)}>{why(one)}</span> },
  { name: "Place", isNumber: true, cell: (one) => (one.position ? count(one.position) : "") },
  { name: "Priority", isNumber: true, isSpare: true, cell: (one) => one.priority },
  { name: "User", isSpare: true, cell: (one) => one.user },
  { name: "Project", isSpare: true, cell: (one) => one.project },
  { name: "Instance type", isSpare: true, cell: (one) => one.instance_type ?? "" },
  { name: "Submitted", isSpare: true, cell: (one) => ago(one.created_at, nowS.value) },
  { name: "Ran", isNumber: true, cell: ran },
  { name: "Cost", isNumber: true, cell: (one) => (one.cost_usd ? usd(Number(one.cost_usd)) : "") },
];

function why(one: Container): string {
  return one.waiting ?? one.doubt ?? one.reason?.message ?? "";
}

function ran(one: Container): string {
  const began = seconds(one.started_at);
  if (began === null) return "";
  return duration((seconds(one.finished_at) ?? nowS.value) - began);
}

const WAITING = new Set(["queued", "locked"]);

export function Containers() {
  const { query } = place.value;
  const isQueue = query["order"] === "queue";
  const filters = isQueue ? FILTERS.filter(([name]) => name !== "instance") : FILTERS;
  const asked = Object.fromEntries(filters.map(([name]) => [name, query[name] ?? ""]));
  const pages = usePages<Container>(
    "v1/containers", isQueue ? { ...asked, order: "queue" } : { ...asked, state: query["state"] ?? "" }, { idOf: (one) => one.id, kind: "container" },
  );
  // Who begins is in the queue no more.
  const waiting = useMemo(() => computed(() => pages.items.value.filter((one) => WAITING.has(one.state))), [pages.items]);
  const begun = isQueue ? pages.items.value.length - waiting.value.length : 0;
  useEffect(() => {
    // All behind them have another place now.
    if (begun > 0) pages.fresh.value = Math.max(pages.fresh.value, begun);
  }, [begun]);
  const list = isQueue ? { ...pages, items: waiting } : pages;
  const states = new Set((query["state"] ?? "").split(",").filter(Boolean));
  const toggle = (words: readonly string[]): void => {
    const chosen = words.every((word) => states.has(word));
    for (const word of words) {
      if (chosen) states.delete(word);
      else states.add(word);
    }
    setQuery({ state: [...states].sort().join(",") });
  };
  return (
    <>
      <h1>Queue</h1>
      <div class="filters" role="search">
        <label>
          Order{" "}
          <select value={isQueue ? "queue" : ""} onChange={(event) => setQuery({ order: event.currentTarget.value })}>
            <option value="">newest first</option>
            <option value="queue">in the order in which they are next</option>
          </select>
        </label>
        {!isQueue && <fieldset>
          <legend>State</legend>
          {CHOICES.map(([name, words]) => (
            <label key={name}>
              <input type="checkbox" checked={words.every((word) => states.has(word))} onChange={() => toggle(words)} /> {name}
            </label>
          ))}
        </fieldset>}
        {filters.map(([name, label]) => (
          <label key={name}>
            {label}{" "}
            <input
              type="search"
              value={query[name] ?? ""}
              onChange={(event) => setQuery({ [name]: event.currentTarget.value.trim() })}
            />
          </label>
        ))}
      </div>
      <Table
        label="Containers"
        list={list}
        columns={COLUMNS}
        idOf={(one) => one.id}
        empty={isQueue ? "Nothing that is like this waits." : "No container is like this. Submit one with: longshore submit -- COMMAND"}
      />
    </>
  );
}
