"""The dashboard of who pays: are we on track, and why not?"""

from __future__ import annotations

from typing import Final

from tools.grafana.panels import (
    JOB,
    RATE,
    STATE_RATE,
    USD,
    DashboardSpec,
    PanelSpec,
    Query,
    Shape,
    one,
    spent_in_range,
)

_MONTH: Final = "longshore_cost_month_to_date_usd"
_RANGE: Final = (
    "By the rates of the ledger: their mean over the range, times the range. Choose a range"
    " in which Longshore was scraped; `longshore cost` has each amount exactly."
)
NOT_INCLUDED: Final = (
    "Not included: traffic, snapshots, NAT, discounts that are not in the prices, and taxes."
)

COST: Final = DashboardSpec(
    uid="longshore-cost",
    title="Longshore: cost",
    description="What is spent, on whom, for what, and what is left. " + NOT_INCLUDED,
    since="now-24h",
    panels=(
        PanelSpec(
            title="Month to date",
            description="This month of UTC by the ledger, up to its age. " + NOT_INCLUDED,
            shape=Shape.NUMBER,
            unit=USD,
            queries=one(f"sum({_MONTH}{JOB})", "month to date"),
            width=6,
        ),
        PanelSpec(
            title="In this range",
            description=f"{_RANGE} {NOT_INCLUDED}",
            shape=Shape.NUMBER,
            unit=USD,
            queries=one(spent_in_range(RATE, ""), "in this range"),
            width=6,
        ),
        PanelSpec(
            title="Rate now",
            description="What all that is billed costs an hour now.",
            shape=Shape.NUMBER,
            unit=USD,
            queries=one(f"sum({STATE_RATE}{JOB})", "USD an hour"),
            width=6,
        ),
        PanelSpec(
            title="How sure it is",
            description="What of the month is not known exactly, in USD.",
            shape=Shape.NUMBER,
            unit=USD,
            queries=one(f"longshore_cost_month_to_date_uncertain_usd{JOB}", "uncertain"),
            width=6,
        ),
        PanelSpec(
            title="Rate by project",
            description="(none) is what is nobody's, (others) all but the 20 dearest projects.",
            shape=Shape.STACK,
            unit=USD,
            queries=one(f"sum by (project) ({RATE}{JOB})", "{{project}}"),
            width=12,
        ),
        PanelSpec(
            title="Rate by what it goes to",
            description="work serves somebody; all else is waste that settings move.",
            shape=Shape.STACK,
            unit=USD,
            queries=one(f"sum by (state) ({STATE_RATE}{JOB})", "{{state}}"),
            width=12,
        ),
        PanelSpec(
            title="In this range, by project",
            description=_RANGE,
            shape=Shape.BARS,
            unit=USD,
            queries=one(spent_in_range(RATE, "project"), "{{project}}"),
        ),
        PanelSpec(
            title="In this range, by what it went to",
            description=_RANGE,
            shape=Shape.BARS,
            unit=USD,
            queries=one(spent_in_range(STATE_RATE, "state"), "{{state}}"),
        ),
        PanelSpec(
            title="In this range, by type",
            description=_RANGE,
            shape=Shape.BARS,
            unit=USD,
            queries=one(spent_in_range(RATE, "instance_type"), "{{instance_type}}"),
        ),
        PanelSpec(
            title="Month to date, by project",
            description="By the ledger. It begins at 0 with each month of UTC.",
            shape=Shape.LINES,
            unit=USD,
            queries=one(f"sum by (project) ({_MONTH}{JOB})", "{{project}}"),
            width=12,
        ),
        PanelSpec(
            title="Budgets: spent and committed",
            description="Share of the limit, with what runs may still add. 1 and more: overspent.",
            shape=Shape.BARS,
            unit="percentunit",
            queries=one(
                f"(longshore_budget_spent_usd{JOB} + longshore_budget_committed_usd{JOB})"
                f" / longshore_budget_limit_usd{JOB}",
                "{{budget}}",
            ),
            width=6,
        ),
        PanelSpec(
            title="Budgets that stop new work",
            description="1: raise the budget, or tell those who wait (docs/budgets.md).",
            shape=Shape.BARS,
            unit="none",
            queries=one(f"longshore_budget_stopped{JOB}", "{{budget}}"),
            width=6,
        ),
        PanelSpec(
            title="Limit of spending",
            description="What all instances cost an hour as it counts towards max_hourly_spend.",
            shape=Shape.LINES,
            unit=USD,
            queries=(
                Query(expression=f"longshore_hourly_spend_usd{JOB}", legend="spent"),
                Query(expression=f"longshore_hourly_spend_limit_usd{JOB}", legend="limit"),
            ),
        ),
        PanelSpec(
            title="Billed and not wanted",
            description="What leaks cost an hour: `longshore leaks` says what to do.",
            shape=Shape.LINES,
            unit=USD,
            queries=one(f"longshore_leaked_price_usd_per_hour{JOB}", "leaks"),
        ),
        PanelSpec(
            title="Prices and freshness",
            description="Instances whose price nobody knows count as 0: set price_per_hour.",
            shape=Shape.LINES,
            unit="none",
            queries=(
                Query(
                    expression=f"longshore_cost_unpriced_instances{JOB}",
                    legend="instances without a price",
                ),
                Query(
                    expression=f"longshore_cost_age_seconds{JOB} / 60",
                    legend="age of the ledger's numbers, in minutes",
                ),
            ),
        ),
    ),
)
