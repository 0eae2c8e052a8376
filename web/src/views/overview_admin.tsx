// What is wrong, and what to turn; and what instances there are. For admins.
import type { Answers } from "../api";
import { useAnswer } from "../parts/answers";
import { nowS } from "../parts/clock";
import { ago, count, plural, usd } from "../parts/format";
import { Figure, Panel, Shown } from "../parts/panel";
import { link } from "../router";
import { HOLDS_EACH_S, adviceOn, causeOf, limitText, remedyOf, settingOf } from "./holds";
import { OVERVIEW_EACH_S, sentence } from "./overview_work";

type Health = Answers["HealthAnswer"];
type Holds = Answers["HoldsAnswer"];
type Leaks = Answers["LeakList"];
type Told = Answers["OverviewAnswer"];

const HEALTH_EACH_S = 5;
const LEAKS_EACH_S = 30;
const LEAKS_ASKED = 100;

/** The kinds of problems, the gravest first, each with what to do beside what its message says. */
const GRAVITY: readonly (readonly [string, string])[] = [
  ["store", "Nothing can be written: free the disk of data_dir, or repair it, and start the server again."],
  ["stopping", "Read the server's log, and start it again."],
  ["disk", "Free room there, or move data_dir to a larger disk."],
  ["logs", "Free room on the disk of log_dir."],
  ["credentials", "Give the server's account the rights that the message names; they are set under driver, or come from its environment."],
  ["destroys", "End the instance in the cloud's console: it costs money until it is gone."],
  ["listings", "See that the cloud is reached; nothing is created until it lists its instances."],
  ["creates", "See Holds for when it is tried again; other instance_types may have room."],
  ["boots", "Look at an instance that failed: its image, its network and its start script."],
  ["creates_in_doubt", "Look for instances in the cloud's console that the server does not list."],
  ["secrets", ""],
  ["certificate", ""],
  ["issuer", ""],
  ["prices", ""],
  ["notifications", ""],
  ["cost_export", ""],
  ["traces", ""],
];
const RANK = new Map(GRAVITY.map(([kind], rank) => [kind, rank]));
const REMEDY = new Map(GRAVITY);

export function Trouble() {
  const health = useAnswer<Health>("v1/health", {}, { eachS: HEALTH_EACH_S });
  const holds = useAnswer<Holds>("v1/holds", {}, { eachS: HOLDS_EACH_S });
  const leaks = useAnswer<Leaks>("v1/leaks", { limit: LEAKS_ASKED }, { eachS: LEAKS_EACH_S });
  return (
    <Panel title="What is wrong, and what to turn">
      <Shown asked={health}>
        {(told) => (
          <Shown asked={holds}>
            {(held) => <Shown asked={leaks}>{(leaked) => <Findings health={told} holds={held} leaks={leaked} />}</Shown>}
          </Shown>
        )}
      </Shown>
    </Panel>
  );
}

function Findings({ health, holds, leaks }: { health: Health; holds: Holds; leaks: Leaks }) {
  const problems = [...health.problems].sort((one, other) => rankOf(one.kind) - rankOf(other.kind));
  const reached = holds.limits.filter((each) => each.blocking || each.reached);
  const found = problems.length + holds.holds.length + reached.length + leaks.items.length;
  return (
    <>
      <p class={`verdict ${verdictOf(health, found)}`}>{toldShortly(health, found)}</p>
      <ul class="rows marked">
        {problems.map((each) => (
          <li key={`${each.kind} ${each.message}`} class="bad">
            <strong>{each.kind.replaceAll("_", " ")}</strong>
            <span>
              {sentence(each.message)} {REMEDY.get(each.kind)} <span class="quiet">Since {ago(each.since, nowS.value)}.</span>
            </span>
          </li>
        ))}
        {leaks.items.length > 0 && (
          <li class="bad"><strong>leaks</strong><span>{leaksText(leaks)} See them with <code>longshore leaks</code>.</span></li>
        )}
        {holds.holds.map((each) => (
          <li key={`${each.cause} ${each.message}`} class="warn">
            <strong>{causeOf(each)}</strong>
            <span>{sentence(each.message)} {remedyOf(each)} <a href={link(["holds"])}>Tried again {ago(each.until, nowS.value)}</a></span>
          </li>
        ))}
        {reached.map((each) => (
          <li key={`${each.name} ${each.whose}`} class="warn">
            <strong>limit reached</strong>
            <span>
              <a href={link(["holds"])}><code>{settingOf(each.name)}</code></a>{each.whose && ` of ${each.whose}`}: {limitText(each)}
              {each.blocking && ", and work waits for it"}. {adviceOn(each.name)}
            </span>
          </li>
        ))}
        {health.advice.map((each) => <li key={each}><strong>advice</strong><span>{sentence(each)}</span></li>)}
      </ul>
    </>
  );
}

function rankOf(kind: string): number {
  return RANK.get(kind) ?? GRAVITY.length;
}

function verdictOf(health: Health, found: number): "good" | "warn" | "bad" {
  if (!health.ready || health.problems.length > 0) return "bad";
  return found > 0 ? "warn" : "good";
}

function toldShortly(health: Health, found: number): string {
  if (!health.ready) return "The server takes no requests.";
  if (found === 0) return "Nothing is wrong.";
  const worst = health.problems.length > 0 ? `${plural(health.problems.length, "problem")}; ` : "";
  return `${worst}${plural(found, "thing")} to look at, the gravest first.`;
}

function leaksText(leaks: Leaks): string {
  const rate = leaks.items.reduce((sum, each) => sum + Number(each.price_usd_per_hour ?? 0), 0);
  const more = leaks.next_cursor ? " or more" : "";
  const what = leaks.items.length === 1 ? "1 thing is" : `${count(leaks.items.length)}${more} things are`;
  return `${what} billed and not wanted: ${usd(rate)} an hour.`;
}

const ORDER = ["unknown", "booting", "running", "idle", "shutdown"] as const;
const MEANS: Record<string, string> = { unknown: "not reached", booting: "booting", running: "at work", idle: "empty", shutdown: "shutting down" };

export function Pool() {
  const asked = useAnswer<Told>("v1/overview", {}, { eachS: OVERVIEW_EACH_S });
  return (
    <Panel title="Instances">
      <Shown asked={asked}>{(told) => (told.instances ? <States instances={told.instances} /> : null)}</Shown>
    </Panel>
  );
}

function States({ instances }: { instances: NonNullable<Told["instances"]> }) {
  const all = instances.counts.reduce((sum, each) => sum + each.count, 0);
  const states = [...new Set([...ORDER, ...instances.counts.map((each) => each.state)])];
  const numberOf = (which: (one: { state: string; idle_behavior: string }) => boolean): number =>
    instances.counts.filter(which).reduce((sum, each) => sum + each.count, 0);
  const behaving = (["hold", "drain"] as const).map((word) => [word, numberOf((one) => one.idle_behavior === word)] as const);
  return (
    <>
      <div class="figures">
        <Figure value={count(all)} of={all === 1 ? "instance" : "instances"} href={link(["instances"])} />
        <Figure value={usd(Number(instances.price_usd_per_hour))} of="an hour" />
        {instances.creating > 0 && <Figure value={count(instances.creating)} of="being created" />}
        {states.map((state) => [state, numberOf((one) => one.state === state)] as const).filter(([, number]) => number > 0).map(([state, number]) => (
          <Figure key={state} value={count(number)} of={MEANS[state] ?? state} tone={state === "unknown" ? "warn" : undefined} />
        ))}
      </div>
      {behaving.filter(([, number]) => number > 0).map(([word, number]) => (
        <p key={word} class="note">{word === "hold" ? `${count(number)} of them held: kept, whatever it costs, until released.` : `${count(number)} of them draining: shut down when what runs there has ended.`}</p>
      ))}
      <p class="note"><a href={link(["timeline"])}>What ran where, over time</a></p>
    </>
  );
}
