"""Planted defects of what a spent budget stops, and of what is kept of budgets."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_TABLE = "dispatcher/state/containers.py"
_RECORDS = "dispatcher/store/budget_records.py"
_STOPS = "tests/unit/test_budget_stops_engine.py"
_LOOK = "dispatcher/service/budgets.py"
_TELLING = "dispatcher/service/telling.py"
_LOOKS = "tests/unit/test_budget_service.py"
_DAYS = "tests/unit/test_unusual_days.py"
_KEPT = (
    "tests/unit/test_store_budgets.py::test_all_that_is_kept_of_budgets_is_there_after_a_restart"
)

BUDGET_STOPS: Final[tuple[EdgeDefect, ...]] = (
    EdgeDefect(
        name="a_spent_budget_stops_nobody_who_comes",
        guard="What comes after a budget is spent waits",
        file=_TABLE,
        old="        self._gate_by_budgets(container)\n        if not container.has_open",
        new="        if not container.has_open",
        test=f"{_STOPS}::test_nothing_new_starts_and_nothing_is_bought_for_whom_it_stops",
    ),
    EdgeDefect(
        name="a_spent_budget_stops_nobody_who_waits",
        guard="What waits when a budget is spent starts no more",
        file=_TABLE,
        old="                self.wait(container, latest(container))\n\n    def why_not_begin",
        new="                pass\n\n    def why_not_begin",
        test=f"{_STOPS}::test_what_runs_goes_on_and_is_not_followed_by_what_waits",
    ),
    EdgeDefect(
        name="a_restart_forgets_the_budgets",
        guard="A restart starts nothing of whom a budget stops",
        file="dispatcher/engine/engine.py",
        old="        self.table.budget_stops = recovered.budget_stops\n",
        new="",
        test=f"{_STOPS}::test_a_restart_starts_nothing_of_whom_it_stops",
    ),
    EdgeDefect(
        name="elastic_jobs_have_no_budget",
        guard="A spent budget stops elastic jobs",
        file="dispatcher/scheduler/elastic/controller.py",
        old="            elif (why := self._table.why_not_begin(container)) is not None:\n",
        new=(
            "            elif (why := self._table.why_not_begin(container)) is not None"
            ' and why.code != "budget":\n'
        ),
        test=f"{_STOPS}::test_an_elastic_job_begins_nothing_and_grows_no_more",
    ),
    EdgeDefect(
        name="daemons_have_no_budget",
        guard="A spent budget stops system and sysbatch jobs",
        file="dispatcher/scheduler/system/controller.py",
        old=(
            "        return job if self._table.why_job_not_begin(job) is None"
            " else replace(job, held=True)\n"
        ),
        new="        return job\n",
        test=f"{_STOPS}::test_a_daemon_comes_to_no_new_instance_and_runs_on_where_it_is",
    ),
    EdgeDefect(
        name="a_plan_does_not_know_budgets",
        guard="A plan of a system job whose budget is spent starts nothing, and says which budget",
        file="dispatcher/service/dry_run.py",
        old="why_job_not_begin(job, stops=view.budget_stops)",
        new="why_job_not_begin(job, stops=())",
        test=(
            "tests/unit/test_job_planning.py"
            "::test_a_job_whose_budget_is_spent_starts_nothing_in_its_plan"
        ),
    ),
    EdgeDefect(
        name="who_is_behind_hears_of_a_priority",
        guard="Who waits behind one that may not begin is told what holds that back",
        file="dispatcher/scheduler/elastic/end_reasons.py",
        old="which may not begin: {why.message}",
        new="which may not begin: its priority is 0",
        test=f"{_STOPS}::test_who_waits_behind_one_that_it_stops_hears_of_the_budget_and_until_when",
    ),
    EdgeDefect(
        name="daemons_stay_held_by_a_budget",
        guard="What a budget held begins when it lets new work begin again",
        file="dispatcher/scheduler/system/apply.py",
        old="held=self._table.jobs.is_held(job.id)",
        new="held=job.held",
        test=f"{_STOPS}::test_a_daemon_comes_to_no_new_instance_and_runs_on_where_it_is",
    ),
    EdgeDefect(
        name="job_schedulers_do_not_hear_of_budgets",
        guard="Schedulers of jobs look again when a budget lets new work begin",
        file="dispatcher/engine/engine.py",
        old="            self.workloads.changed(job_id)\n\n    def _reprice",
        new="            del job_id\n\n    def _reprice",
        test=f"{_STOPS}::test_an_elastic_job_begins_nothing_and_grows_no_more",
    ),
    EdgeDefect(
        name="a_notification_is_kept_for_good",
        guard="A notification that was taken is not sent after a restart",
        file=_RECORDS,
        old="    connection.execute(delete(tables.notifications).where(*mine))\n",
        new="    del mine\n",
        test=_KEPT,
    ),
    EdgeDefect(
        name="a_budget_is_told_before_it_is_committed",
        guard="Nothing is told that is not committed",
        file=_TELLING,
        old="            await asyncio.wrap_future(self._store.write([*changes, *saved]))\n",
        new="            self._store.write([*changes, *saved], wait=True)\n",
        test=f"{_LOOKS}::test_what_cannot_be_committed_is_told_to_nobody",
    ),
    EdgeDefect(
        name="what_is_on_its_way_is_not_kept",
        guard="A notification is in the store before it is sent",
        file=_TELLING,
        old="self._store.write([*changes, *saved])",
        new="self._store.write([*changes])",
        test=f"{_LOOKS}::test_each_step_is_told_once_and_the_limit_stops_new_work",
    ),
    EdgeDefect(
        name="a_restart_tells_a_budget_again",
        guard="What was told of a budget is remembered over a restart",
        file=_LOOK,
        old="                changes.append(SaveBudget(name=budget.name, memory=verdict.memory))\n",
        new="                self._memories[budget.name] = verdict.memory\n",
        test=f"{_LOOKS}::test_a_restart_tells_nothing_again_and_stops_from_its_beginning",
    ),
    EdgeDefect(
        name="the_engine_is_not_told_of_a_stop",
        guard="A look that finds a budget spent tells the engine",
        file=_LOOK,
        old="            self._runtime.post_committed(BudgetStopsChanged(stops=stops))\n",
        new="            pass\n",
        test=f"{_LOOKS}::test_each_step_is_told_once_and_the_limit_stops_new_work",
    ),
    EdgeDefect(
        name="the_engine_is_told_of_a_stop_at_each_look",
        guard="The sentence of a stop that goes on stays, so that nobody is gated anew",
        file=_LOOK,
        old="            before.get((each.budget, each.until), each)",
        new="            each",
        test=f"{_LOOKS}::test_a_stop_that_goes_on_is_told_to_the_engine_once",
    ),
    EdgeDefect(
        name="a_start_knows_no_budget",
        guard="A start finds out which budgets are spent",
        file=_LOOK,
        old="    return tuple(each.stop for each in verdicts if each.stop is not None)\n",
        new="    del verdicts\n    return ()\n",
        test=f"{_LOOKS}::test_a_restart_tells_nothing_again_and_stops_from_its_beginning",
    ),
    EdgeDefect(
        name="everybody_sees_all_budgets",
        guard="A user sees the budgets of its projects and its own",
        file=_LOOK,
        old="        return caller.sees(whose)\n",
        new="        return True\n",
        test=f"{_LOOKS}::test_who_sees_which_budget",
    ),
    EdgeDefect(
        name="everybody_hears_of_all_budgets",
        guard="Events of budgets are for whom the budget concerns",
        file="dispatcher/api/routes/events.py",
        old='return self._encoder.encoded(event) if seen else b""',
        new="return self._encoder.encoded(event)",
        test="tests/unit/test_visibility.py::test_events_of_budgets_are_for_whom_they_concern",
    ),
    EdgeDefect(
        name="a_day_is_looked_at_before_it_is_booked",
        guard="A day is looked at once it is booked to its end",
        file="dispatcher/service/unusual_days.py",
        old="    if sums.booked_until < spans[-1][1]:\n        return None\n",
        new="",
        test=f"{_DAYS}::test_a_day_that_is_not_booked_to_its_end_is_not_looked_at",
    ),
    EdgeDefect(
        name="a_restart_tells_a_day_again",
        guard="An unusual day is told once",
        file=_LOOK,
        old="        self._day_looked_at = last_looked_at(records.unusual_days)\n",
        new='        self._day_looked_at = ""\n',
        test=f"{_DAYS}::test_an_unusual_day_is_told_once_also_over_a_restart",
    ),
    EdgeDefect(
        name="what_cannot_be_written_of_a_notification_is_dropped",
        guard="What became of a notification is written with what comes next",
        file="dispatcher/notifications/kept.py",
        old="            self._unwritten.clear()\n",
        new="            pass\n        self._unwritten.clear()\n",
        test="tests/unit/test_kept_notifications.py"
        "::test_what_cannot_be_written_now_is_written_with_what_comes_next",
    ),
    EdgeDefect(
        name="a_label_of_a_budget_is_not_kept_apart",
        guard="The budget of a label is one that the ledger adds up",
        file="dispatcher/config/budgets.py",
        old="    elif key and key not in kept:\n",
        new="    elif not kept and not key:\n",
        test="tests/unit/test_config_budgets.py::test_a_budget_that_makes_no_sense_is_told",
    ),
)
