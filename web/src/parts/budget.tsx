// Budgets: what of them is spent and committed, and whether they will last.
import type { Answers } from "../api";
import { usd } from "./format";
import { dayOf, daysLater } from "./ledger";

export type Budget = Answers["BudgetAnswer"];

export type Course = "stopped" | "over" | "likely over" | "may be over" | "on track" | "unknown";

/** Return how a budget's period will likely end. */
export function courseOf(budget: Budget): Course {
  const limit = Number(budget.limit);
  if (budget.stopped_until) return "stopped";
  if (Number(budget.spent) > limit) return "over";
  if (!budget.forecast) return "unknown";
  if (Number(budget.forecast.p50) > limit) return "likely over";
  return Number(budget.forecast.p90) > limit ? "may be over" : "on track";
}

export const TONE_OF: Record<Course, "good" | "warn" | "bad"> = {
  stopped: "bad", over: "bad", "likely over": "bad", "may be over": "warn", "on track": "good", unknown: "warn",
};

/** Return the day on which a budget is spent at the pace of its forecast, in UTC; null for not in its period. */
export function runsOutOn(budget: Budget): string | null {
  const [limit, spent] = [Number(budget.limit), Number(budget.spent)];
  if (!budget.forecast || !budget.to || !budget.as_of) return null;
  const leftDays = (Date.parse(budget.to) - Date.parse(budget.as_of)) / 86_400_000;
  const pace = (Number(budget.forecast.p50) - spent) / leftDays;
  if (spent >= limit) return dayOf(budget.as_of, "UTC");
  const days = (limit - spent) / pace;
  return leftDays > 0 && pace > 0 && days < leftDays ? daysLater(dayOf(budget.as_of, "UTC"), Math.floor(days)) : null;
}

/** What of a budget is spent and committed, as a bar. */
export function Meter({ budget }: { budget: Budget }) {
  const [limit, spent, committed] = [Number(budget.limit), Number(budget.spent), Number(budget.committed)];
  const widthOf = (part: number): string => `${limit > 0 ? Math.min(100, (part / limit) * 100) : 0}%`;
  return (
    <div class="meter" role="img" aria-label={`${usd(spent)} spent and ${usd(committed)} committed of ${usd(limit)}`}>
      <span class={`spent ${spent > limit ? "over" : ""}`} style={{ width: widthOf(spent) }} />
      <span class="committed" style={{ width: widthOf(committed) }} />
    </div>
  );
}
