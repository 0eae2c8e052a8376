// Jobs: what was submitted together, and how far it is.
import type { Answers } from "../api";
import { usePages } from "../parts/answers";
import { nowS } from "../parts/clock";
import { ago } from "../parts/format";
import { State } from "../parts/panel";
import { Progress } from "../parts/progress";
import { type Column, Table } from "../parts/table";
import { link, place, setQuery } from "../router";

type Job = Answers["JobAnswer"];

const FILTERS = [["user", "User"], ["project", "Project"], ["name", "Name"]] as const;
const COLUMNS: readonly Column<Job>[] = [
  { name: "Job", cell: (job) => <a href={link(["jobs", job.id])}>{job.name || job.id}</a> },
  { name: "State", cell: (job) => <State word={job.held ? "held" : job.state} /> },
  { name: "Progress", cell: (job) => <Progress counts={job.counts} /> },
  { name: "Type", isSpare: true, cell: (job) => job.type },
  { name: "User", isSpare: true, cell: (job) => job.user },
  { name: "Project", isSpare: true, cell: (job) => job.project },
  { name: "Submitted", isSpare: true, cell: (job) => ago(job.created_at, nowS.value) },
  { name: "Trouble", cell: (job) => job.trouble?.message ?? job.reason?.message ?? "" },
];

export function Jobs() {
  const { query } = place.value;
  const asked = Object.fromEntries(FILTERS.map(([name]) => [name, query[name] ?? ""]));
  const list = usePages<Job>("v1/jobs", asked, { idOf: (job) => job.id, kind: "job" });
  return (
    <>
      <h1>Jobs</h1>
      <div class="filters" role="search">
        {FILTERS.map(([name, label]) => (
          <label key={name}>
            {label}{" "}
            <input type="search" value={query[name] ?? ""} onChange={(event) => setQuery({ [name]: event.currentTarget.value.trim() })} />
          </label>
        ))}
      </div>
      <Table label="Jobs" list={list} columns={COLUMNS} idOf={(job) => job.id} empty="There is no such job. Submit one with: longshore job submit FILE" />
    </>
  );
}
