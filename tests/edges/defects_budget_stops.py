"""Planted defects of what a spent budget stops, and of what is kept of budgets."""

from __future__ import annotations

from typing import Final

from tests.edges.defect import EdgeDefect

_TABLE = "dispatcher/state/containers.py"
_RECORDS = "dispatcher/store/budget_records.py"
_STOPS = "tests/unit/test_budget_stops_engine.py"
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
        old="                self.wait(container, latest(container))\n\n    def budget_stop",
        new="                pass\n\n    def budget_stop",
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
        old="        holding = Gate.JOB_HELD | Gate.BUDGET\n",
        new="        holding = Gate.JOB_HELD\n",
        test=f"{_STOPS}::test_an_elastic_job_begins_nothing_and_grows_no_more",
    ),
    EdgeDefect(
        name="daemons_have_no_budget",
        guard="A spent budget stops system and sysbatch jobs",
        file="dispatcher/scheduler/system/controller.py",
        old="        return job if stop is None else replace(job, held=True)\n",
        new="        return job\n",
        test=f"{_STOPS}::test_a_daemon_comes_to_no_new_instance_and_runs_on_where_it_is",
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
        old="            self.workloads.changed(job_id)\n\n    def _confirm",
        new="            del job_id\n\n    def _confirm",
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
)
