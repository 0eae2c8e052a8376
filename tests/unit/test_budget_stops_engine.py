"""What a spent budget stops: nothing new starts, nothing is bought, and what runs goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.budgets import BudgetScope, BudgetStop
from longshore.dispatcher.domain.containers import Container, SchedulerSettings
from longshore.dispatcher.domain.jobs import JobType
from longshore.dispatcher.domain.may_begin import why_job_not_begin, why_not_begin
from longshore.dispatcher.domain.messages import BudgetStopsChanged
from longshore.pool.messages import CreateInstance, StartAttempt
from tests.rigs.elastic_jobs import elastic, essential, rig_of, running, submit
from tests.rigs.engine import Rig, last_commands
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type

PROJECT = make_container(1).project
STOP = BudgetStop(
    budget="vision",
    scope=BudgetScope.PROJECT,
    whose=PROJECT,
    until=90_000.0,
    next_on="1970-01-02",
    sentence="budget vision is spent until 1970-01-02",
)
STOPPED = BudgetStopsChanged(stops=(STOP,))
OPEN = BudgetStopsChanged(stops=())


def of_another(number: int) -> Container:
    return replace(make_container(number), project="another")


def test_nothing_new_starts_and_nothing_is_bought_for_whom_it_stops() -> None:
    rig = Rig(make_type(1))
    rig.send(STOPPED)
    rig.submit(make_container(1), of_another(2))
    assert rig.states() == {"c-1": "queued", "c-2": "running"}
    assert len(last_commands(rig, CreateInstance)) == 1
    why = rig.view.wait_reason("c-1")
    assert why is not None
    assert (why.code, why.message, why.until) == ("budget", STOP.sentence, STOP.until)
    rig.send(OPEN)
    rig.advance(60)
    assert rig.states()["c-1"] == "running"


def test_what_runs_goes_on_and_is_not_followed_by_what_waits() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=2))
    rig.submit(*(make_container(number) for number in range(1, 6)))
    assert sorted(rig.states().values()).count("running") == 2
    rig.send(STOPPED)
    rig.advance(30)
    started = len(last_commands(rig, StartAttempt))
    assert sorted(rig.states().values()).count("running") == 2
    for container_id in sorted(rig.started_on()):
        rig.exit(f"{container_id}-1")
    rig.advance(300)
    assert sorted(rig.states().values()) == ["queued"] * 3 + ["succeeded"] * 2
    assert len(last_commands(rig, StartAttempt)) == started


def test_who_waits_for_an_instance_gives_its_claim_up() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    assert rig.states() == {"c-1": "locked"}
    rig.send(STOPPED)
    assert rig.states() == {"c-1": "queued"}
    assert rig.view.is_gated("c-1")


def test_a_restart_starts_nothing_of_whom_it_stops() -> None:
    rig = Rig(make_type(1))
    rig.send(STOPPED)
    rig.submit(make_container(1))
    rig.budget_stops = (STOP,)
    rig.crash()
    rig.advance(60)
    assert rig.states() == {"c-1": "queued"}
    assert not last_commands(rig, CreateInstance)
    rig.send(OPEN)
    assert rig.states() == {"c-1": "running"}


def test_an_elastic_job_begins_nothing_and_grows_no_more() -> None:
    rig = rig_of(1, 1, most=3)
    submit(rig, 1, essential(1), elastic(1))
    assert running(rig) == {"e": 1, "w": 1}
    rig.send(STOPPED)
    submit(rig, 2, essential(1))
    rig.advance(60)
    assert running(rig) == {"e": 1, "w": 1}
    assert len(rig.cloud) == 2
    rig.send(OPEN)
    rig.advance(60)
    assert running(rig, 2) == {"e": 1}


def test_a_daemon_comes_to_no_new_instance_and_runs_on_where_it_is() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    (first,) = rig.join()
    rig.submit_daemon(daemon(1))
    assert [worker_id for _, worker_id in rig.starts()] == [first]
    rig.send(BudgetStopsChanged(stops=(replace(STOP, whose="p"),)))
    (second,) = rig.join()
    rig.revise("j-1", command=("other",))
    rig.advance(60)
    assert rig.starts() == []
    here, waiting = rig.of_job("j-1")
    assert (here.pinned_to, here.state.value) == (first, "running")
    assert (waiting.pinned_to, waiting.state.value) == (second, "queued")
    why = rig.view.wait_reason(waiting.id)
    assert why is not None
    assert why.code == "budget"
    rig.send(OPEN)
    rig.advance(60)
    assert sorted(worker_id for _, worker_id in rig.starts()) == [first, second]


def test_a_sysbatch_job_that_it_stops_does_not_end_for_lack_of_instances() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.send(BudgetStopsChanged(stops=(replace(STOP, whose="p"),)))
    rig.submit_daemon(daemon(1, type_=JobType.SYSBATCH, late_joiners=False))
    rig.advance(60)
    assert rig.starts() == []
    assert not rig.jobs["j-1"].state.final
    rig.send(OPEN)
    rig.advance(5)
    assert len(rig.starts()) == 1


def test_who_waits_behind_one_that_it_stops_hears_of_the_budget_and_until_when() -> None:
    rig = rig_of(3)
    rig.boot("t3")
    labelled = replace(STOP, scope=BudgetScope.LABEL, whose="cost=high")
    rig.send(BudgetStopsChanged(stops=(labelled,)))
    submit(rig, 1, essential(1), essential(1, "n", labels=(("cost", "high"),)))
    assert running(rig) == {}
    behind, stopped = (rig.engine.why_waiting(each) for each in ("c-1000", "c-1001"))
    assert behind is not None
    assert stopped is not None
    assert (stopped.code, stopped.message) == ("budget", STOP.sentence)
    assert behind.message == f"its job needs c-1001, which may not begin: {STOP.sentence}"
    assert (behind.behind, behind.until) == ("c-1001", STOP.until)


@pytest.mark.parametrize(
    ("job_is_held", "priority", "stops", "expected"),
    [
        (True, 0, (STOP,), "job_held"),
        (False, 0, (STOP,), "held"),
        (False, 1, (STOP,), "budget"),
        (False, 1, (replace(STOP, whose="another"),), None),
        (False, 1, (), None),
    ],
)
def test_one_answer_says_what_holds_somebody_back(
    job_is_held: bool, priority: int, stops: tuple[BudgetStop, ...], expected: str | None
) -> None:
    container = replace(make_container(1, priority=priority), job_id="j-1")
    why = why_not_begin(container, job_is_held=job_is_held, stops=stops)
    assert (None if why is None else why.code) == expected
    job = replace(daemon(1, priority=priority), project=PROJECT, held=job_is_held)
    of_job = why_job_not_begin(job, stops=stops)
    assert (None if of_job is None else of_job.code) == expected
