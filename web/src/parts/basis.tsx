// What stands under every amount: for which time, of what, how fresh, and what it lacks.
import type { Ledger } from "./ledger";
import { usd } from "./format";

function clock(moment: string | null, tz: string): string {
  if (!moment) return "never";
  return new Date(moment).toLocaleString("en-GB", { timeZone: tz, day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

/** Return a time as people read it; what is open ends now. */
export function period(from: string, to: string): string {
  return to ? `${from} to before ${to}` : `${from} up to now`;
}

/** `of` says which amounts are counted: "all", or "direct and caused". */
export function Basis({ ledger, of = "direct, caused and shared" }: { ledger: Ledger; of?: string }) {
  const { from, to } = ledger.question;
  const tz = ledger.time_zone;
  return (
    <>
      {period(String(from), String(to ?? ""))} ({tz}). {ledger.currency}, {of}, by the ledger as of {clock(ledger.as_of, tz)};
      booked until {clock(ledger.booked_until, tz)}, later hours may still change.{" "}
      {Number(ledger.unpriced_instance_hours) > 0 && `${Number(ledger.unpriced_instance_hours).toFixed(1)} instance hours have no price and are not in it. `}
      {Number(ledger.total.uncertain) > 0 && `${usd(Number(ledger.total.uncertain))} of it is uncertain. `}
      Not included: {ledger.not_included.join("; ")}.
      {!ledger.isWhole && <strong> There are more rows than are shown here; the total is of all.</strong>}
    </>
  );
}
