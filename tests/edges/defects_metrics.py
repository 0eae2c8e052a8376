"""Planted defects of the metrics, and of the queries about money; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_LEDGER = "dispatcher/metrics/ledger.py"
_TEST = "tests/unit/test_metrics_cost.py"

METRICS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="crowded_shares_are_not_divided",
        guard="Shares that add up to more than an instance are divided",
        file="dispatcher/cost/tiling.py",
        old="each.share / max(Fraction(1), kept)",
        new="each.share",
        test=f"{_TEST}::test_an_hour_costs_what_the_ledger_would_book_for_it",
    ),
    EdgeDefect(
        name="what_is_gone_has_a_rate",
        guard="An instance that is billed no more has no rate",
        file="dispatcher/cost/rates.py",
        old="    if span is None or not span.is_open:\n",
        new="    if span is None:\n",
        test=f"{_TEST}::test_what_is_not_billed_has_no_rate",
    ),
    EdgeDefect(
        name="rates_keep_the_price_of_the_first_scrape",
        guard="A new price makes all rates anew",
        file=_LEDGER,
        old="            self._known, self._prices, self._book = {}, prices, PriceBook(prices)\n",
        new="            self._prices, self._book = prices, PriceBook(prices)\n",
        test=f"{_TEST}::test_a_new_price_and_a_new_place_are_seen_and_what_is_gone_is_forgotten",
    ),
    EdgeDefect(
        name="rates_keep_the_places_of_the_first_scrape",
        guard="An instance of which something has changed is reckoned anew",
        file=_LEDGER,
        old="            if known is None or known[0] != meter:\n",
        new="            if known is None:\n",
        test=f"{_TEST}::test_a_new_price_and_a_new_place_are_seen_and_what_is_gone_is_forgotten",
    ),
    EdgeDefect(
        name="each_project_has_a_series",
        guard="Series by project have an end",
        file=_LEDGER,
        old="name if at < MOST_PROJECTS else OTHERS",
        new="name",
        test=f"{_TEST}::test_projects_without_end_have_series_with_an_end_and_the_same_sum",
    ),
    EdgeDefect(
        name="what_nobody_knows_is_0",
        guard="Nothing is told of money before the ledger was read",
        file=_LEDGER,
        old="    if month is not None:\n",
        new="    month = month or MonthToDate(\n"
        "        as_of=0.0, by_project=(), uncertain_grains=0, unpriced_ms=0, prices=()\n"
        "    )\n"
        "    if month:\n",
        test=f"{_TEST}::test_nothing_is_told_before_the_ledger_was_read",
    ),
    EdgeDefect(
        name="time_without_a_price_is_not_told",
        guard="What has no price is told as such",
        file="dispatcher/service/cost_gauges.py",
        old="                unpriced_ms += total.quantity_ms\n",
        new="                unpriced_ms += 0\n",
        test=f"{_TEST}::test_the_month_is_read_from_the_ledger_by_who_pays",
    ),
    EdgeDefect(
        name="a_project_counts_for_all_of_the_range",
        guard="The mean of a rate is over all scrapes, also those without the series",
        file="tools/grafana/panels.py",
        old='    spent = f"{total} (sum_over_time({metric}{JOB}[$__range]))"\n',
        new='    spent = f"{total} (avg_over_time({metric}{JOB}[$__range]))"\n',
        test="tests/unit/test_dashboards.py"
        "::test_money_of_a_range_counts_the_time_of_a_series_alone_and_bridges_a_restart",
    ),
)
