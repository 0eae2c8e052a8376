// What who runs the cluster asks: what it costs now, what of that is waste, and what to turn.
import { type Answers, get } from "../api";
import { useAnswer, useLoaded } from "../parts/answers";
import { Basis } from "../parts/basis";
import { courseOf, TONE_OF } from "../parts/budget";
import { Numbers, Ranking, Stacked } from "../parts/charts";
import { nowS } from "../parts/clock";
import { ago, count, percent, plural, usd } from "../parts/format";
import { type CostRow, dayOf, daysLater, largest, rowsLink, sumsBy, total, useLedger } from "../parts/ledger";
import { Figure, Panel, Shown, State } from "../parts/panel";
import { link } from "../router";
import type { Month } from "./costs";

type Forecast = Answers["CostForecastAnswer"];
type Prices = Answers["PriceListAnswer"];
type Leaks = Answers["LeakList"];
type Budgets = Answers["BudgetsAnswer"];
type Instance = Answers["InstanceAnswer"];

const EACH_S = 30;
const NOW = "As of now, in US dollars an hour at the prices that the ledger reckons with. Data transfer, snapshots, taxes and discounts are not included.";

export function Operation({ month }: { month: Month }) {
  return (
    <>
      <Rate month={month} />
      <Waste month={month} />
      <div class="panels wide">
        <Room />
        <Boots month={month} />
        <Leaked month={month} />
        <UsefulHours month={month} />
        <PriceAges />
      </div>
      <NearBudgets />
    </>
  );
}

function Rate({ month }: { month: Month }) {
  const asked = useAnswer<Forecast>("v1/cost/forecast", { tz: month.tz }, { eachS: EACH_S });
  return (
    <Panel title="What it costs now" note={NOW}>
      <Shown asked={asked}>
        {({ pool }) => {
          if (!pool) return <p class="empty">There is no data for you here.</p>;
          const rate = pool.states.reduce((sum, each) => sum + Number(each.usd_per_hour), 0);
          const limit = pool.limit_usd_per_hour === null ? null : Number(pool.limit_usd_per_hour);
          return (
            <>
              <div class="figures">
                <Figure value={usd(rate)} of={limit === null ? "an hour; there is no limit (scheduler.max_hourly_spend_usd)" : `an hour of ${usd(limit)} that may be spent`} href={link(["instances"])} {...(limit !== null && rate >= limit ? { tone: "warn" as const } : {})} />
              </div>
              <Ranking
                label="USD an hour by state of instances"
                heads={["State", "USD an hour", "of all", "Instances"]}
                told={usd}
                empty="There is no instance: it costs $0.00 an hour."
                rows={[...pool.states].sort((a, b) => Number(b.usd_per_hour) - Number(a.usd_per_hour)).map((each) => ({
                  key: each.state, name: <State word={each.state} />, amount: Number(each.usd_per_hour), href: link(["instances"]), more: [count(each.instances)],
                }))}
              />
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

/** What moves each cause of waste. */
const SETTINGS: Record<string, string> = {
  empty: "pool.idle_timeout_s: how long an idle instance is kept",
  room: "sizes of instance_types, and what work asks for (asked against used)",
  boot: "images that boot faster; fewer, larger instances",
  failed_boot: "pool.boot_timeout_s, and what the boots of that type fail of",
  never_used: "pool.idle_timeout_s, and who cancels what instances were bought for",
  held: "who holds instances: release them under Instances",
  draining: "time limits of what runs when an instance is drained",
  unreachable: "the network and the sessions of these instances",
  unwanted: "destroys that fail: see leaks",
  minimum: "what the cloud bills at least: fewer short lives",
  unused: "prepaid of the type: more is paid for than runs",
  daemon: "system jobs, which run on each instance",
  leak: "see leaks",
  unanswered: "create calls without an answer, until a listing settles them",
};

function isWaste(row: CostRow): boolean {
  return row.by["cause"] !== "work";
}

function Waste({ month }: { month: Month }) {
  const asked = useLedger(month, { by: "cause", step: "day" });
  return (
    <Panel title="What is waste, and what moves it" note={asked.answer.value && <Basis ledger={asked.answer.value} of="caused and shared, by cause" />}>
      <Shown asked={asked}>
        {(ledger) => {
          const causes = largest(sumsBy(ledger.items.filter(isWaste), (row) => row.by["cause"] ?? "")).filter(([, amount]) => amount !== 0);
          const shown = causes.slice(0, 7).map(([name]) => name);
          const whole = causes.reduce((sum, [, amount]) => sum + amount, 0);
          const all = Number(ledger.total.total);
          return (
            <>
              <div class="figures"><Figure value={usd(whole)} of={all > 0 ? `not work, ${percent(whole / all)} of ${usd(all)}` : "not work: there is no data"} href={rowsLink(month, ["cause", "type"])} /></div>
              <WasteDays rows={ledger.items.filter(isWaste)} shown={shown} hasMore={causes.length > shown.length} month={month} />
              <Ranking
                label="Waste by cause"
                heads={["Cause", "USD", "of waste", "What moves it"]}
                told={usd}
                most={14}
                endsInText
                empty={ledger.items.length === 0 ? "There is no data: nothing was booked in this time." : "Nothing was wasted: $0.00."}
                rows={causes.map(([name, amount]) => ({ key: name, name, amount, href: rowsLink(month, ["cause", "type", "zone", "state"]), more: [SETTINGS[name] ?? "\u2014"] }))}
              />
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

function WasteDays({ rows, shown, hasMore, month }: { rows: readonly CostRow[]; shown: readonly string[]; hasMore: boolean; month: Month }) {
  const days = new Map<string, number[]>();
  const names = hasMore ? [...shown, "other"] : shown;
  for (const row of rows) {
    const day = dayOf(row.from, month.tz);
    const sums = days.get(day) ?? names.map(() => 0);
    const found = shown.indexOf(row.by["cause"] ?? "");
    const index = found < 0 ? shown.length : found;
    sums[index] = (sums[index] ?? 0) + total(row.amounts);
    days.set(day, sums);
  }
  if (names.length === 0) return null;
  return (
    <Stacked
      label="Waste by day"
      series={names.map((name, index) => ({ name, fill: `fill-${index}` }))}
      told={usd}
      columns={[...days].map(([day, values]) => ({ name: day, values, href: rowsLink({ tz: month.tz, from: day, to: daysLater(day, 1) }, ["cause", "type"]) }))}
    />
  );
}

const MOST_PAGES = 5;

async function allInstances(abort: AbortSignal): Promise<Instance[]> {
  const found: Instance[] = [];
  let cursor = "";
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const answer = await get<Answers["InstanceList"]>("v1/instances", { limit: 1000, cursor }, abort);
    found.push(...answer.items);
    cursor = answer.next_cursor ?? "";
    if (!cursor) break;
  }
  return found;
}

function Room() {
  const asked = useLoaded("v1/instances of room", allInstances, { eachS: EACH_S });
  return (
    <Panel title="Room beside work, and who keeps it" note={`${NOW} Room is what nobody has of an instance on which something runs: as long as that runs, it is paid for.`}>
      <Shown asked={asked}>
        {(instances) => {
          const rows = instances
            .filter((one) => (one.places ?? []).length > 0)
            .map((one) => {
              const left = Math.max(0, 1 - (one.places ?? []).reduce((sum, each) => sum + each.share, 0));
              return { one, left, rate: left * Number(one.price_usd_per_hour) };
            })
            .sort((a, b) => b.rate - a.rate || (a.one.id < b.one.id ? -1 : 1));
          const whole = rows.reduce((sum, each) => sum + each.rate, 0);
          if (rows.length === 0) return <p class="empty">Nothing runs: there is no room beside it.</p>;
          return (
            <>
              <div class="figures"><Figure value={usd(whole)} of={`an hour is room on ${plural(rows.length, "instance")} with work`} href={link(["instances"])} /></div>
              <Numbers label="Room and who keeps it" heads={["Instance", "Room", "USD an hour", "Kept by"]}>
                {rows.slice(0, 15).map(({ one, left, rate }) => (
                  <tr key={one.id}>
                    <th scope="row"><a href={link(["instances", one.id])}>{one.id}</a> <span class="quiet">{one.instance_type}</span></th>
                    <td class="number">{percent(left)}</td>
                    <td class="number">{usd(rate)}</td>
                    <td class="number">
                      {(one.places ?? []).slice(0, 3).map((each, index) => <>{index > 0 && ", "}<a key={each.container} href={link(["containers", each.container])}>{each.container}</a></>)}
                      {(one.places ?? []).length > 3 && ` and ${(one.places ?? []).length - 3} more`}
                    </td>
                  </tr>
                ))}
              </Numbers>
            </>
          );
        }}
      </Shown>
    </Panel>
  );
}

const OF_BOOTS = ["boot", "failed_boot", "never_used"] as const;

function Boots({ month }: { month: Month }) {
  const asked = useLedger(month, { by: "type,zone,cause" });
  return (
    <Panel title="Boots" note={asked.answer.value && <Basis ledger={asked.answer.value} of="caused; slow boots show as much for boots that came to work" />}>
      <Shown asked={asked}>
        {(ledger) => {
          const rows = ledger.items.filter((row) => OF_BOOTS.some((each) => each === row.by["cause"]));
          const places = largest(sumsBy(rows, (row) => `${row.by["type"]}\n${row.by["zone"]}`));
          if (places.length === 0) return <p class="empty">{ledger.items.length === 0 ? "There is no data: nothing was booked in this time." : "No boot cost anything."}</p>;
          const part = (key: string, cause: string): number =>
            rows.filter((row) => `${row.by["type"]}\n${row.by["zone"]}` === key && row.by["cause"] === cause).reduce((sum, row) => sum + total(row.amounts), 0);
          return (
            <Numbers label="Boots by type and zone" heads={["Type", "Zone", "Booted", "Failed", "Never used"]}>
              {places.slice(0, 12).map(([key]) => {
                const [type = "", zone = ""] = key.split("\n");
                return (
                  <tr key={key}>
                    <th scope="row"><a href={rowsLink(month, ["zone", "cause", "state"], { type })}>{type}</a></th>
                    <td class="number">{zone === "(none)" ? "not told" : zone}</td>
                    {OF_BOOTS.map((cause) => <td key={cause} class="number">{usd(part(key, cause))}</td>)}
                  </tr>
                );
              })}
            </Numbers>
          );
        }}
      </Shown>
    </Panel>
  );
}

function Leaked({ month }: { month: Month }) {
  const leaks = useAnswer<Leaks>("v1/leaks", { limit: 100 }, { eachS: EACH_S });
  const asked = useLedger(month, { by: "type,cause" });
  return (
    <Panel title="Leaks and what is uncertain" note={asked.answer.value && <Basis ledger={asked.answer.value} />}>
      <Shown asked={leaks}>
        {(answer) => (
          answer.items.length === 0 ? <p class="state good">Nothing leaks.</p> : (
            <Numbers label="Leaks" heads={["What", "Since", "USD", "USD an hour", "What to do"]} endsInText>
              {answer.items.map((each) => (
                <tr key={`${each.instance} ${each.launch} ${each.resource}`}>
                  <th scope="row">{each.instance ? <a href={link(["instances", each.instance])}>{each.instance}</a> : (each.resource ?? each.launch)} <span class="quiet">{each.kind}</span></th>
                  <td class="number">{ago(each.since, nowS.value)}</td>
                  <td class="number">{usd(Number(each.cost_usd))}</td>
                  <td class="number">{each.price_usd_per_hour === null ? "no data" : usd(Number(each.price_usd_per_hour))}</td>
                  <td class="wrap">{each.why} {each.remedy}</td>
                </tr>
              ))}
            </Numbers>
          )
        )}
      </Shown>
      <Shown asked={asked}>
        {(ledger) => (
          <>
            <div class="figures"><Figure value={usd(Number(ledger.total.uncertain))} of="uncertain this month" href={rowsLink(month, ["type", "cause", "state"])} /></div>
            <Ranking
              label="Uncertain by type and cause"
              heads={["Type and cause", "USD", "of uncertain"]}
              told={usd}
              most={5}
              empty="Nothing is uncertain."
              rows={largest(sumsBy(ledger.items, (row) => `${row.by["type"]}: ${row.by["cause"]}`, (amounts) => Number(amounts.uncertain)))
                .filter(([, amount]) => amount > 0)
                .map(([name, amount]) => ({ key: name, name, amount, href: rowsLink(month, ["type", "cause", "state"]) }))}
            />
          </>
        )}
      </Shown>
    </Panel>
  );
}

function UsefulHours({ month }: { month: Month }) {
  const asked = useLedger(month, { by: "type,zone,state,outcome" });
  return (
    <Panel title="Reclaims, and what a useful hour costs" note={asked.answer.value && <Basis ledger={asked.answer.value} of="all that a type costs, by the hours of work that succeeded; reclaims are the work that was lost to them, or made way for other work" />}>
      <Shown asked={asked}>
        {(ledger) => {
          const kinds = largest(sumsBy(ledger.items, (row) => `${row.by["type"]}\n${row.by["zone"]}`));
          if (kinds.length === 0) return <p class="empty">There is no data: nothing was booked in this time.</p>;
          return (
            <Numbers label="USD per useful hour by type and zone" heads={["Type", "Zone", "USD", "Useful hours", "USD each", "Reclaims"]}>
              {kinds.slice(0, 15).map(([key, whole]) => {
                const [type = "", zone = ""] = key.split("\n");
                const rows = ledger.items.filter((row) => row.by["type"] === type && row.by["zone"] === zone && row.by["state"] === "work");
                const hours = rows.filter((row) => row.by["outcome"] === "useful").reduce((sum, row) => sum + Number(row.amounts.instance_hours), 0);
                const lost = rows.filter((row) => row.by["outcome"] === "lost:preempted").reduce((sum, row) => sum + total(row.amounts), 0);
                return (
                  <tr key={key}>
                    <th scope="row"><a href={rowsLink(month, ["zone", "state", "outcome"], type === "(none)" ? {} : { type })}>{type}</a></th>
                    <td class="number">{zone === "(none)" ? "not told" : zone}</td>
                    <td class="number">{usd(whole)}</td>
                    <td class="number">{hours.toFixed(2)}</td>
                    <td class="number">{hours > 0 ? usd(whole / hours) : "no useful hour"}</td>
                    <td class="number">{usd(lost)}</td>
                  </tr>
                );
              })}
            </Numbers>
          );
        }}
      </Shown>
    </Panel>
  );
}

function PriceAges() {
  const asked = useAnswer<Prices>("v1/prices", {}, { eachS: EACH_S });
  return (
    <Panel title="Prices" note="What the ledger reckons with now, in US dollars an hour, with all that is billed with an instance. Told is when the cloud said so last, where live prices are asked for.">
      <Shown asked={asked}>
        {(answer) => (
          answer.items.length === 0 ? <p class="empty">There is no data: no type is configured.</p> : (
            <Numbers label="Prices" heads={["Type", "Zone", "Market", "USD an hour", "Source", "Since", "Told"]}>
              {answer.items.map((each) => (
                <tr key={`${each.instance_type} ${each.zone}`}>
                  <th scope="row">{each.instance_type}</th>
                  <td class="number">{each.zone ?? "all"}</td>
                  <td class="number">{each.market}</td>
                  <td class="number">{each.usd_per_hour === null ? <span class="state bad">no price</span> : usd(Number(each.usd_per_hour))}</td>
                  <td class="number">{each.source}</td>
                  <td class="number">{ago(each.since, nowS.value)}</td>
                  <td class="number">{each.told_at ? ago(each.told_at, nowS.value) : "not live"}</td>
                </tr>
              ))}
            </Numbers>
          )
        )}
      </Shown>
    </Panel>
  );
}

const NEAR = 0.8;

function NearBudgets() {
  const asked = useAnswer<Budgets>("v1/budgets", {}, { on: (change) => change.kind === "budget", eachS: EACH_S });
  return (
    <Panel title="Budgets near or at their end" note="Each in its own period and zone, from 80 % of its limit on or where the forecast is over it, looked at every 30 seconds. Data transfer, snapshots and taxes are not included.">
      <Shown asked={asked}>
        {(answer) => {
          const near = answer.items.filter((each) => Number(each.spent) >= NEAR * Number(each.limit) || !["on track", "unknown"].includes(courseOf(each)));
          if (answer.items.length === 0) return <p class="empty">No budget is set.</p>;
          if (near.length === 0) return <p class="state good">None of {plural(answer.items.length, "budget")} is near its limit.</p>;
          return (
            <Numbers label="Budgets near their limit" heads={["Budget", "Spent", "Limit", "Who waits", "What is told"]} endsInText>
              {near.map((each) => (
                <tr key={each.name}>
                  <th scope="row">{each.name} <span class={`state ${TONE_OF[courseOf(each)]}`}>{courseOf(each)}</span></th>
                  <td class="number">{usd(Number(each.spent))}</td>
                  <td class="number">{usd(Number(each.limit))}</td>
                  <td class="number">{each.stopped_until && each.scope !== "label" ? <a href={link(["containers"], { state: "queued", [each.scope]: each.whose })}>{each.whose}'s queue</a> : each.stopped_until ? <a href={link(["containers"], { state: "queued" })}>Queue</a> : "nobody for it"}</td>
                  <td class="wrap">{each.message || (each.stop === "new" ? "New work waits once it is spent." : "It stops nothing.")}</td>
                </tr>
              ))}
            </Numbers>
          );
        }}
      </Shown>
    </Panel>
  );
}
