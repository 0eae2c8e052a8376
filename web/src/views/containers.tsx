// The queue: containers that one sees, newest first, with why they wait.
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

export function Containers() {
  const { query } = place.value;
  const asked = Object.fromEntries(["state", ...FILTERS.map(([name]) => name)].map((name) => [name, query[name] ?? ""]));
  const list = usePages<Container>("v1/containers", asked, { idOf: (one) => one.id, kind: "container" });
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
        <fieldset>
          <legend>State</legend>
          {CHOICES.map(([name, words]) => (
            <label key={name}>
              <input type="checkbox" checked={words.every((word) => states.has(word))} onChange={() => toggle(words)} /> {name}
            </label>
          ))}
        </fieldset>
        {FILTERS.map(([name, label]) => (
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
        empty="No container is like this. Submit one with: longshore submit -- COMMAND"
      />
    </>
  );
}
