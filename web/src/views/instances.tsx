// The pool: each instance, its state, and the containers on it, drawn to scale.
import { type Answers, send } from "../api";
import { Action } from "../parts/actions";
import { useAnswer, usePages } from "../parts/answers";
import { nowS } from "../parts/clock";
import { Facts } from "../parts/facts";
import { ago, bytes, localTime, percent, usd } from "../parts/format";
import { Panel, Shown, State } from "../parts/panel";
import { type Column, Table } from "../parts/table";
import { link, place, setQuery } from "../router";

type Instance = Answers["InstanceAnswer"];

const COLUMNS: readonly Column<Instance>[] = [
  { name: "Instance", cell: (one) => <a href={link(["instances", one.id])}>{one.id}</a> },
  { name: "State", cell: (one) => <State word={one.state} /> },
  { name: "Containers on it", cell: (one) => <Packed one={one} /> },
  { name: "Behavior", cell: (one) => (one.idle_behavior === "run" ? "" : <State word={one.idle_behavior} />) },
  { name: "Type", cell: (one) => one.instance_type },
  { name: "USD an hour", isNumber: true, isSpare: true, cell: (one) => usd(Number(one.price_usd_per_hour)) },
  { name: "Created", isSpare: true, cell: (one) => ago(one.created_at, nowS.value) },
  { name: "Heard", isSpare: true, cell: (one) => ago(one.last_contact_at, nowS.value) },
  { name: "What is wrong", cell: (one) => <span title={wrong(one)}>{wrong(one)}</span> },
];

function wrong(one: Instance): string {
  return [one.broken, one.last_error, one.cloud_says ?? "", one.shortfall, one.advice ?? ""].filter(Boolean).join("; ");
}

export function Instances() {
  const { query } = place.value;
  const gone = query["gone"] === "true";
  const list = usePages<Instance>("v1/instances", gone ? { gone: true } : {}, { idOf: (one) => one.id, ...(gone ? {} : { kind: "instance" }) });
  return (
    <>
      <h1>Instances</h1>
      <p class="filters">
        <label>
          <input type="checkbox" checked={gone} onChange={() => setQuery({ gone: gone ? "" : "true" })} /> those that are gone
        </label>
      </p>
      <Table label="Instances" list={list} columns={COLUMNS} idOf={(one) => one.id} empty={gone ? "None is gone." : "There is no instance: one is created when something waits for it."} />
    </>
  );
}

/** The containers on an instance, each as wide as its part of it. */
function Packed({ one }: { one: Instance }) {
  const places = one.places ?? [];
  return (
    <div class="packed" role="img" aria-label={places.map((each) => `${each.container} ${percent(each.share)}`).join(", ") || "nothing"}>
      {places.map((each) => <span key={each.container} title={`${each.container}: ${percent(each.share)}`} style={{ width: widthOf(each.share, places) }} />)}
    </div>
  );
}

/** The same, where there is room: each leads to its container. */
function PackedLinks({ one }: { one: Instance }) {
  const places = one.places ?? [];
  return (
    <div class="packed tall">
      {places.map((each) => (
        <a
          key={each.container}
          href={link(["containers", each.container])}
          aria-label={`${each.container}: ${percent(each.share)}`}
          title={`${each.container}: ${percent(each.share)}`}
          style={{ width: widthOf(each.share, places) }}
        />
      ))}
    </div>
  );
}

function widthOf(share: number, places: readonly { share: number }[]): string {
  // Shares of the memory of some and the processors of others may add up to more than all.
  const whole = Math.max(1, places.reduce((sum, each) => sum + each.share, 0));
  return `${(share / whole) * 100}%`;
}

export function InstanceView({ id }: { id: string }) {
  const path = `v1/instances/${encodeURIComponent(id)}`;
  const asked = useAnswer<Instance>(path, {}, { on: (change) => change.kind === "instance" && change.id === id });
  return (
    <Shown asked={asked}>
      {(one) => (
        <>
          <p class="trail"><a href={link(["instances"])}>Instances</a> / {one.id}</p>
          <h1>{one.id} <State word={one.state} /></h1>
          {one.gone_at === null && <Controls one={one} path={path} again={asked.again} />}
          <div class="panels">
            <Panel title="What it is">
              <Facts
                of={[
                  ["Type", `${one.instance_type}${one.provider_type ? ` (${one.provider_type})` : ""}`],
                  ["Room", one.room && [`${one.room.cpus} cpus`, bytes(one.room.memory), one.room.gpus ? `${one.room.gpus} GPUs` : ""].filter(Boolean).join(", ")],
                  ["USD an hour", usd(Number(one.price_usd_per_hour))],
                  ["Address", one.address],
                  ["Created", `${localTime(one.created_at)} (${ago(one.created_at, nowS.value)})`],
                  ["Heard last", one.last_contact_at && ago(one.last_contact_at, nowS.value)],
                  ["Busy last", one.last_busy_at && ago(one.last_busy_at, nowS.value)],
                  ["Taken back", one.taken_back_at && localTime(one.taken_back_at)],
                  ["Gone", one.gone_at && localTime(one.gone_at)],
                ]}
              />
            </Panel>
            <Panel title="How it is">
              <Facts
                of={[
                  ["Behavior", one.idle_behavior],
                  ["Asked for by", one.idle_behavior_note && [one.idle_behavior_note.by, one.idle_behavior_note.reason].filter(Boolean).join(": ")],
                  ["Until", one.idle_behavior_note?.until && localTime(one.idle_behavior_note.until)],
                  ["Broken", one.broken],
                  ["Last error", one.last_error],
                  ["The cloud says", one.cloud_says],
                  ["Missing since", one.missing_since && localTime(one.missing_since)],
                  ["Less than its type", one.shortfall],
                  ["Advice", one.advice],
                ]}
              />
            </Panel>
          </div>
          <Panel title="Containers on it">
            <PackedLinks one={one} />
            {(one.places ?? []).length === 0 ? <p class="empty">Nothing runs here.</p> : <Places one={one} />}
            <p class="note"><a href={link(["containers"], { instance: one.id })}>All that ran here</a> · <a href={link(["timeline"], { instance: one.id, span: "86400" })}>Over time</a></p>
          </Panel>
        </>
      )}
    </Shown>
  );
}

function Places({ one }: { one: Instance }) {
  return (
    <table class="plain">
      <thead>
        <tr>{["Container", "Part", "Processors", "Memory"].map((name) => <th key={name} scope="col">{name}</th>)}</tr>
      </thead>
      <tbody>
        {(one.places ?? []).map((each) => (
          <tr key={each.container}>
            <td><a href={link(["containers", each.container])}>{each.container}</a></td>
            <td>{percent(each.share)}</td>
            <td>{each.cpus}</td>
            <td>{bytes(each.memory)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const MEANING = {
  hold: "It takes nothing new and is kept, whatever it costs, until it is told otherwise.",
  drain: "It takes nothing new; it is shut down when what runs there has ended.",
  run: "It takes work again, and is shut down when it was idle for long enough.",
} as const;

function Controls({ one, path, again }: { one: Instance; path: string; again: () => void }) {
  return (
    <p class="controls">
      {(["hold", "drain", "run"] as const).filter((word) => word !== one.idle_behavior).map((word) => (
        <Action
          key={word}
          name={word[0]?.toUpperCase() + word.slice(1)}
          question={MEANING[word]}
          act={async (fields) => { await send("PUT", `${path}/idle-behavior`, { idle_behavior: word, reason: String(fields.get("reason") ?? "") }); again(); }}
        >
          <label>Reason <input name="reason" maxLength={500} required={word === "hold"} /></label>
        </Action>
      ))}
      <Action
        name="Kill"
        isGrave
        question={`Destroy ${one.id} now? What runs there is lost, and begins again elsewhere if it may.`}
        act={async (fields) => { await send("POST", `${path}/kill`, { reason: String(fields.get("reason") ?? "") }); again(); }}
      >
        <label>Reason <input name="reason" maxLength={500} /></label>
      </Action>
    </p>
  );
}
