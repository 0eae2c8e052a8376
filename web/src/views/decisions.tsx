// What was decided lately of instances, and who made way for others; newest first.
import { useEffect } from "preact/hooks";
import type { Answers } from "../api";
import { useAnswer, usePages } from "../parts/answers";
import { localTime } from "../parts/format";
import { type Column, Table } from "../parts/table";
import { link, place, setQuery } from "../router";

type Decision = Answers["DecisionAnswer"];
type Page = Answers["DecisionList"];

const NEWEST_EACH_S = 5;
const KINDS: readonly (readonly [string, string])[] = [
  ["bought", "bought"], ["shut_down", "shut down"], ["creates_held", "creates held"], ["made_way", "made way"],
];
const NAMES = new Map(KINDS);
const COLUMNS: readonly Column<Decision>[] = [
  { name: "When", cell: (one) => <time>{localTime(one.at)}</time> },
  { name: "Kind", cell: (one) => NAMES.get(one.kind) ?? one.kind },
  { name: "What, and why", isWide: true, cell: (one) => <span title={one.message}>{one.message}</span> },
  { name: "Instance", cell: (one) => one.instance && <a href={link(["instances", one.instance])}>{one.instance}</a> },
  { name: "Container", cell: (one) => one.container && <a href={link(["containers", one.container])}>{one.container}</a> },
  { name: "Type", isSpare: true, cell: (one) => one.instance_type ?? "" },
];

export function Decisions() {
  const kind = place.value.query["kind"] ?? "";
  const list = usePages<Decision>("v1/decisions", { kind }, { idOf: (one) => String(one.number) });
  const newest = useAnswer<Page>("v1/decisions", { kind, limit: 1 }, { eachS: NEWEST_EACH_S });
  const [told, shown] = [newest.answer.value, list.items.value[0]?.number ?? 0];
  useEffect(() => {
    // No event tells of a decision: the newest is asked for, and they are numbered.
    list.fresh.value = Math.max(0, (told?.items[0]?.number ?? 0) - shown);
  }, [told, shown]);
  return (
    <>
      <h1>Decisions</h1>
      <div class="filters" role="search">
        <label>
          Kind{" "}
          <select value={kind} onChange={(event) => setQuery({ kind: event.currentTarget.value })}>
            <option value="">all</option>
            {KINDS.map(([word, name]) => <option key={word} value={word}>{name}</option>)}
          </select>
        </label>
        {told && <span class="quiet">Kept in memory since {localTime(told.recorded_since)}: the latest 2,000.</span>}
      </div>
      <Table label="Decisions" list={list} columns={COLUMNS} idOf={(one) => String(one.number)} empty="Nothing like this was decided since the server began." />
    </>
  );
}
