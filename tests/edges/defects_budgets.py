"""Planted defects of budgets, forecasts and webhooks; what they are is in `defect`."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_BUDGETS = "dispatcher/cost/budgets.py"
_STOPS = "dispatcher/domain/budgets.py"
_FORECAST = "dispatcher/cost/forecast.py"
_UNUSUAL = "dispatcher/cost/anomalies.py"
_HOOKS = "dispatcher/notifications/webhooks.py"
_DELIVERY = "dispatcher/notifications/delivery.py"
_CONFIG = "dispatcher/config/notifications.py"
_STORIES = "tests/unit/test_budgets.py"
_SENT = "tests/unit/test_webhooks.py"
_PURE = "tests/unit/test_webhook_delivery.py"
_READ = "tests/unit/test_config_budgets.py"

BUDGETS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_step_is_told_each_time",
        guard="A step of a budget is told once in a period",
        file=_BUDGETS,
        old="    untold = [each for each in budget.warn if each not in known.steps_told]\n",
        new="    untold = list(budget.warn)\n",
        test=f"{_STORIES}::test_each_step_is_told_once_and_none_is_taken_back",
    ),
    EdgeDefect(
        name="a_step_is_un_reached_by_a_correction",
        guard="What was told stays told for the period",
        file=_BUDGETS,
        old="        return replace(memory, limit_grains=budget.limit_grains)\n    still",
        new="        pass\n    still",
        test=f"{_STORIES}::test_each_step_is_told_once_and_none_is_taken_back",
    ),
    EdgeDefect(
        name="a_correction_lets_new_work_begin",
        guard="A budget that stops does so to the end of its period",
        file=_BUDGETS,
        old="        BudgetSignal.WITHIN: _STOPPED,\n",
        new="        BudgetSignal.WITHIN: _OPEN,\n",
        test=f"{_STORIES}::test_it_stops_to_the_end_of_the_period_also_when_a_correction_comes",
    ),
    EdgeDefect(
        name="a_new_period_stops_still",
        guard="A new period lets new work begin",
        file=_BUDGETS,
        old="        seen.append(BudgetSignal.RENEWED)\n",
        new="        seen = []\n",
        test=f"{_STORIES}::test_it_stops_to_the_end_of_the_period_also_when_a_correction_comes",
    ),
    EdgeDefect(
        name="a_limit_that_is_put_back_is_a_raise",
        guard="A raised limit is above the one that was spent",
        file=_BUDGETS,
        old="budget.limit_grains > memory.stopped_at_grains:",
        new="budget.limit_grains > memory.limit_grains:",
        test=f"{_STORIES}::test_a_limit_that_is_lowered_and_put_back_is_no_raise",
    ),
    EdgeDefect(
        name="a_clock_that_is_put_back_opens_a_period_again",
        guard="A period that is over stays over",
        file=_BUDGETS,
        old="    if memory is not None and now < memory.period.starts_at:\n",
        new="    if memory is not None and now < 0:\n",
        test=f"{_STORIES}::test_a_clock_that_is_put_back_opens_no_period_again",
    ),
    EdgeDefect(
        name="the_forecast_is_told_all_day",
        guard="The forecast is told once a day at most",
        file=_BUDGETS,
        old=" and day != known.forecast_told_on\n",
        new="\n",
        test=f"{_STORIES}::test_the_forecast_is_told_when_it_goes_over_and_once_a_day_at_most",
    ),
    EdgeDefect(
        name="a_forecast_that_was_not_made_takes_one_back",
        guard="A forecast counts until the next one is made",
        file=_BUDGETS,
        old="        return known.forecast_is_over\n",
        new="        return False\n",
        test=f"{_STORIES}::test_the_forecast_is_told_when_it_goes_over_and_once_a_day_at_most",
    ),
    EdgeDefect(
        name="a_strange_error_ends_a_webhook",
        guard="Whatever a receiver does, the next try is made",
        file=_HOOKS,
        old="        except Exception as error:  # noqa: BLE001",
        new="        except OSError as error:  # noqa: BLE001",
        test=f"{_SENT}::test_a_name_that_is_not_known_is_a_failed_try",
    ),
    EdgeDefect(
        name="a_budget_without_stop_stops",
        guard="Only a budget that is to stop new work does",
        file=_BUDGETS,
        old="            return [*seen, BudgetSignal.FREED]\n",
        new="            return [*seen, BudgetSignal.REACHED]\n",
        test=f"{_STORIES}::test_a_budget_without_stop_tells_and_stops_nothing",
    ),
    EdgeDefect(
        name="budgets_stop_in_the_order_of_the_file",
        guard="Of several budgets that stop the first by name counts",
        file=_STOPS,
        old="    return min(matching, key=lambda each: each.budget, default=None)",
        new="    return next(iter(matching), None)",
        test=f"{_STORIES}::test_of_several_budgets_that_stop_the_first_by_name_counts",
    ),
    EdgeDefect(
        name="shared_costs_count_for_all",
        guard="A direct budget counts what its work used and caused",
        file=_BUDGETS,
        old="            return frozenset({Column.DIRECT, Column.CAUSED})\n",
        new="            return frozenset(Column)\n",
        test=f"{_STORIES}::test_which_lines_count",
    ),
    EdgeDefect(
        name="a_forecast_is_below_what_is_booked",
        guard="A forecast is no less than what is booked",
        file=_FORECAST,
        old="    low = max(float(seen.booked), min(likely + less, straight))\n",
        new="    low = min(likely + less, straight)\n",
        test="tests/unit/test_forecast.py::test_nothing_of_what_is_booked_is_forecast_away",
    ),
    EdgeDefect(
        name="the_usual_queue_counts_twice",
        guard="What usually runs and waits is in the usual days",
        file=_FORECAST,
        old="seen.pending - usual * _USUAL_PENDING_DAYS",
        new="seen.pending",
        test="tests/unit/test_forecast.py::test_what_is_always_the_same_is_forecast_exactly",
    ),
    EdgeDefect(
        name="chance_makes_days_of_the_week",
        guard="Days of the week count as they differ beyond chance",
        file=_FORECAST,
        old="    if between <= chance:\n        return even\n    trust = 1 - chance / between\n",
        new="    trust = 1.0\n",
        test=(
            "tests/unit/test_forecast.py::test_what_chance_makes_of_days_of_the_week_does_not_count"
        ),
    ),
    EdgeDefect(
        name="a_burst_is_unusual_each_day",
        guard="A day is not unusual where another was lately",
        file=_UNUSUAL,
        old="    if spent <= max(before[-_LATELY_DAYS:]):\n",
        new="    if spent < 0:\n",
        test="tests/unit/test_anomalies.py::test_a_day_is_unusual_far_above_its_like",
    ),
    EdgeDefect(
        name="the_days_of_an_outage_are_left_out",
        guard="Each day that is over is looked at",
        file="dispatcher/service/unusual_days.py",
        old="(DAYS_MOST if after else 1)",
        new="1",
        test="tests/unit/test_unusual_days.py::test_after_an_outage_each_day_is_looked_at_once",
    ),
    EdgeDefect(
        name="a_restart_forgets_which_day_was_looked_at",
        guard="A restart goes on behind the last day that was looked at",
        file="dispatcher/service/budgets.py",
        old="changes = [*(change for change, _ in pairs), looked_at(day)]",
        new="changes = [change for change, _ in pairs]",
        test="tests/unit/test_unusual_days.py::test_after_an_outage_each_day_is_looked_at_once",
    ),
    EdgeDefect(
        name="two_weeks_tell_what_is_usual",
        guard="Too few weeks tell nothing",
        file=_UNUSUAL,
        old="LEAST_WEEKS: Final = 4",
        new="LEAST_WEEKS: Final = 2",
        test="tests/unit/test_anomalies.py::test_a_day_is_unusual_far_above_its_like",
    ),
    EdgeDefect(
        name="days_have_24_hours",
        guard="Days are as long as their clock makes them",
        file="dispatcher/domain/periods.py",
        old="        ends_at=_midnight(following, time_zone),\n",
        new="        ends_at=_midnight(first, time_zone) + (following - first).total_seconds(),\n",
        test="tests/unit/test_periods.py::test_days_are_as_long_as_their_clock_makes_them",
    ),
    EdgeDefect(
        name="any_host_is_told",
        guard="Notifications go to hosts that are named",
        file=_HOOKS,
        old="        if host not in self._hosts:\n",
        new="        if not host:\n",
        test=f"{_SENT}::test_nothing_is_sent_to_where_it_may_not[another name]",
    ),
    EdgeDefect(
        name="notifications_go_by_http",
        guard="Notifications go by https, but on this machine",
        file=_HOOKS,
        old='        if parts.scheme != "https" and not is_loopback(host):\n',
        new='        if parts.scheme not in {"https", "http"}:\n',
        test=f"{_SENT}::test_nothing_is_sent_to_where_it_may_not[http]",
    ),
    EdgeDefect(
        name="private_addresses_are_told",
        guard="Nothing is sent to an address that is none of the internet",
        file=_HOOKS,
        old="            is_fine = each is not None and is_public(each)\n",
        new="            is_fine = each is not None\n",
        test=f"{_SENT}::test_nothing_is_sent_to_where_it_may_not[this machine]",
    ),
    EdgeDefect(
        name="one_address_is_looked_at",
        guard="All addresses of a host are looked at",
        file=_HOOKS,
        old="    for text, each in zip(found, addresses, strict=True):\n",
        new="    for text, each in zip(found[:1], addresses, strict=False):\n",
        test=f"{_SENT}::test_nothing_is_sent_to_where_it_may_not[one of two]",
    ),
    EdgeDefect(
        name="localhost_is_anywhere",
        guard="A host that is this machine has addresses of this machine",
        file=_HOOKS,
        old="            is_fine = each is not None and each.is_loopback\n",
        new="            is_fine = each is not None\n",
        test=f"{_SENT}::test_nothing_is_sent_to_where_it_may_not[localhost elsewhere]",
    ),
    EdgeDefect(
        name="a_name_is_looked_up_twice",
        guard="The connection goes to the address that was checked",
        file=_HOOKS,
        old="            resolver=_Pinned(found), use_dns_cache",
        new="            use_dns_cache",
        test=f"{_SENT}::test_the_connection_goes_to_the_address_that_was_checked",
    ),
    EdgeDefect(
        name="notifications_follow_redirects",
        guard="A notification is not sent on",
        file=_HOOKS,
        old="                allow_redirects=False,\n",
        new="                allow_redirects=True,\n",
        test=f"{_SENT}::test_nobody_is_followed_elsewhere",
    ),
    EdgeDefect(
        name="an_answer_is_read_to_its_end",
        guard="Of an answer to a notification its status is read, and no more",
        file=_HOOKS,
        old="            answer.close()\n",
        new="            await answer.read()\n",
        test=f"{_SENT}::test_an_answer_without_an_end_is_not_read",
    ),
    EdgeDefect(
        name="a_receiver_may_take_for_ever",
        guard="A try of a webhook ends in time",
        file=_HOOKS,
        old="            async with asyncio.timeout(self._timeout_s):\n",
        new="            async with asyncio.timeout(None):\n",
        test=f"{_SENT}::test_one_that_hangs_is_given_up_in_time_and_delays_no_other",
    ),
    EdgeDefect(
        name="anybody_receives_notifications",
        guard="A receiver shows a certificate that is trusted",
        file=_HOOKS,
        old="force_close=True, ssl=self._tls\n",
        new="force_close=True, ssl=False\n",
        test=f"{_SENT}::test_who_receives_must_show_that_it_is_the_host",
    ),
    EdgeDefect(
        name="notifications_wait_without_end",
        guard="So many notifications wait for one webhook and no more",
        file=_HOOKS,
        old="            if len(queue.waiting) > MOST_QUEUED:\n",
        new="            if len(queue.waiting) > 100 * MOST_QUEUED:\n",
        test=f"{_SENT}::test_the_oldest_go_when_too_many_wait",
    ),
    EdgeDefect(
        name="a_restart_forgets_tries",
        guard="A try that failed is noted where a restart reads it",
        file=_HOOKS,
        old="            await self._kept.save(again)\n",
        new="",
        test=f"{_SENT}::test_a_restart_goes_on_with_its_tries",
    ),
    EdgeDefect(
        name="what_was_taken_is_sent_after_a_restart",
        guard="What was taken is forgotten",
        file=_HOOKS,
        old=(
            "            del queue.waiting[delivery.key]\n"
            "            await self._kept.forget(delivery)\n"
        ),
        new="            del queue.waiting[delivery.key]\n",
        test=f"{_SENT}::test_what_is_kept_is_sent_signed_and_forgotten",
    ),
    EdgeDefect(
        name="the_key_of_a_webhook_is_shown",
        guard="The address and the key of a webhook are in no text",
        file=_HOOKS,
        old="    key: bytes = field(repr=False)\n",
        new="    key: bytes\n",
        test=f"{_SENT}::test_the_address_and_the_key_of_a_webhook_are_in_no_text",
    ),
    EdgeDefect(
        name="a_signature_is_of_the_body_alone",
        guard="The id and the time of a notification are signed",
        file=_DELIVERY,
        old=(
            '    signed = b".".join((notification.id.encode(), str(int(now)).encode(),'
            " notification.body))\n"
        ),
        new="    signed = notification.body\n",
        test=f"{_PURE}::test_a_signature_is_that_of_standard_webhooks",
    ),
    EdgeDefect(
        name="a_notification_is_tried_for_ever",
        guard="A notification is given up after a day",
        file=_DELIVERY,
        old="    if now + pause_s > delivery.queued_at + pace.given_up_after_s:\n",
        new="    if pause_s > pace.given_up_after_s:\n",
        test=f"{_PURE}::test_it_is_tried_for_a_day_and_then_given_up",
    ),
    EdgeDefect(
        name="failed_notifications_come_back_at_once",
        guard="A part of each pause is chance",
        file=_DELIVERY,
        old=" * (1 + JITTER * chance)\n",
        new="\n",
        test=f"{_PURE}::test_pauses_double_and_are_longer_by_chance",
    ),
    EdgeDefect(
        name="a_webhook_may_be_anywhere",
        guard="A webhook is at a host that is named",
        file=_CONFIG,
        old="    if host not in told.hosts:\n",
        new="    if not host:\n",
        test=f"{_READ}::test_a_webhook_that_goes_astray_is_told",
    ),
    EdgeDefect(
        name="a_key_that_others_read_is_taken",
        guard="The key of a webhook is not open to others",
        file=_CONFIG,
        old="    if mode & 0o027:\n",
        new="    if mode & 0o022:\n",
        test=f"{_READ}::test_a_key_that_is_none_is_told_and_never_shown",
    ),
    EdgeDefect(
        name="config_show_tells_where_webhooks_are",
        guard="The path of a webhook is shown to who asks for secrets",
        file=_CONFIG,
        old='each.url if secrets else f"{_origin(each.url)}/{HIDDEN}"',
        new="each.url",
        test=f"{_READ}::test_the_path_of_a_webhook_is_shown_to_who_asks_for_secrets",
    ),
    EdgeDefect(
        name="a_private_address_in_another_dress_is_public",
        guard="An address that carries one of IPv4 is what that one is",
        file="dispatcher/config/hosts.py",
        old="        if inner:\n            return all(map(is_public, inner))\n",
        new="        del inner\n",
        test=f"{_READ}::test_which_addresses_are_of_the_internet",
    ),
    EdgeDefect(
        name="multicast_is_public",
        guard="Groups and reserved addresses are none of the internet",
        file="dispatcher/config/hosts.py",
        old="    return found.is_global and not (found.is_multicast or found.is_reserved)\n",
        new="    return found.is_global\n",
        test=f"{_READ}::test_which_addresses_are_of_the_internet",
    ),
    EdgeDefect(
        name="who_waits_is_told_what_others_spent",
        guard="What was spent is told to who may know it",
        file=_BUDGETS,
        old='        case BudgetScope.USER | BudgetScope.LABEL:\n            return ""\n',
        new=(
            "        case BudgetScope.USER | BudgetScope.LABEL:\n"
            '            return f" ({_spent_of(budget, use, period)})"\n'
        ),
        test=f"{_STORIES}::test_who_waits_is_not_told_what_others_spent",
    ),
)
