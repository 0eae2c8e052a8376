// Who was to change what, newest first.
import type { Answers } from "../api";
import { usePages } from "../parts/answers";
import { localTime } from "../parts/format";
import { type Column, Table } from "../parts/table";
import { place, setQuery } from "../router";

type Entry = Answers["AuditEntryAnswer"];

const COLUMNS: readonly Column<Entry>[] = [
  { name: "When", cell: (one) => <time>{localTime(one.at)}</time> },
  { name: "User", cell: (one) => one.user },
  { name: "Role", isSpare: true, cell: (one) => one.role },
  { name: "From", isSpare: true, cell: (one) => one.address },
  { name: "Action", cell: (one) => one.action },
  { name: "Detail", cell: (one) => one.detail },
  { name: "Made", isSpare: true, cell: (one) => one.made ?? "" },
  { name: "Answered", isNumber: true, cell: (one) => one.status ?? "unknown" },
];

export function Audit() {
  const { query } = place.value;
  const list = usePages<Entry>("v1/audit", { user: query["user"] ?? "" }, { idOf: (one) => String(one.number) });
  return (
    <>
      <h1>Audit</h1>
      <div class="filters" role="search">
        <label>
          User{" "}
          <input type="search" value={query["user"] ?? ""} onChange={(event) => setQuery({ user: event.currentTarget.value.trim() })} />
        </label>
      </div>
      <Table label="Audit log" list={list} columns={COLUMNS} idOf={(one) => String(one.number)} empty="Nobody has changed anything." />
    </>
  );
}
