"""What a job would come to: tried on a copy, with nothing changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import Dependency, SchedulerSettings
from longshore.dispatcher.domain.jobs import (
    JobType,
    JobTypeSpec,
    Parameters,
    Schedule,
    UpdateStrategy,
)
from longshore.dispatcher.domain.messages import BudgetStopsChanged
from longshore.dispatcher.scheduler.system.dry_run_counts import Counts
from longshore.dispatcher.service.dry_run import planning
from longshore.pool.messages import CreateInstance, Listed, ListInstances
from tests.job_samples import make_job, make_task
from tests.rigs.dry_run import plan_job
from tests.rigs.elastic_jobs import elastic, elastic_job, essential, running
from tests.rigs.elastic_jobs import rig_of as elastic_rig
from tests.rigs.elastic_jobs import submit as submit_elastic
from tests.rigs.engine import Rig
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type
from tests.state_digest import digest_of
from tests.unit.test_budget_stops_engine import STOP


def test_a_batch_job_is_planned_onto_room_and_new_instances_and_nothing_is_changed() -> None:
    rig = DaemonRig(make_type(2, price="0.2"), pool=LONG)
    rig.submit(make_container(1, cpus=1))
    rig.advance(60)
    before = digest_of(rig.engine)
    job, _ = make_job(9, make_task("", size=3))
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(place=3)
    (create,) = plan.creates
    assert (create.type_name, create.number) == ("t2", 1), "one fits beside what runs"
    assert plan.most_usd_per_hour == Decimal("0.2")
    assert digest_of(rig.engine) == before
    assert [(step.instance_id, step.action, step.detail) for step in plan.steps] == [
        ("i-001", "place", "1 container: started at once"),
        ("", "place", "2 containers: room on a t2 that is created"),
    ]


def test_what_finds_no_room_is_blocked_and_the_plan_says_why() -> None:
    rig = DaemonRig(make_type(1), pool=LONG, settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1, cpus=1))
    rig.advance(60)
    job, _ = make_job(9, make_task("", size=2))
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(blocked=2)
    assert [reason.code for reason in plan.waiting] == ["at_quota"]
    assert plan.creates == ()


def test_what_waits_for_others_is_later() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    after = (Dependency(of="j-9/a"),)
    job, _ = make_job(9, make_task("a"), make_task("b", after=after))
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(place=1, later=1)
    assert [reason.code for reason in plan.waiting] == ["after"]


def test_of_a_large_array_all_are_looked_at_and_only_some_at_once() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    job, _ = make_job(9, make_task("", size=2_205))
    parts, came = planning(rig.fork, job, rig.now), []

    def whole() -> Generator[None, None, None]:
        came.append((yield from parts))

    number = 0
    for _ in whole():
        number += 1
        if number == 1:
            # There is a copy by now: the engine goes on, and it is no matter.
            rig.submit(make_container(1))
    (plan,) = came
    assert number >= 10, "four and a half times 500 are submitted, and looked at"
    assert plan.counts == Counts(place=10, blocked=2_195), "10 creates are made at once"
    assert plan.steps_left_out == 0
    assert [step.detail.partition(":")[0] for step in plan.steps[-1:]] == ["2195 containers"]


def test_the_later_elements_of_a_limited_array_have_their_turn_later() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    job, _ = make_job(9, make_task("a", size=10, max_running=2))
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(place=2, later=8)
    assert plan.steps_left_out == 0
    (why,) = plan.waiting
    assert (why.code, why.message) == (
        "max_running",
        "as many elements of its array run as may at once (2)",
    )
    assert [(step.action, step.detail) for step in plan.steps] == [
        ("place", "1 container of a: room on a t1 that is created"),
        ("place", "1 container of a: room on a t1 that is created"),
        ("wait", "8 containers of a: max running"),
    ]


def test_what_waits_for_others_that_have_ended_starts_and_for_one_that_failed_never_does() -> None:
    rig = DaemonRig(make_type(2), pool=LONG)
    tasks = (make_task("a", after=("c-7",)), make_task("b", after=("c-8",)))
    job, _ = make_job(9, *tasks)
    plan = plan_job(rig.fork, job, rig.now, ended={"c-7": True, "c-8": False})
    assert plan.counts == Counts(place=1, blocked=1)
    assert [reason.code for reason in plan.waiting] == ["dependency_failed"]


# ---- elastic jobs --------------------------------------------------------------------------------


def test_an_elastic_job_for_which_there_never_is_room_enough_gets_nothing() -> None:
    rig = Rig(make_type(2), settings=SchedulerSettings(max_instances=2))
    job, containers = elastic_job(9, essential(3, "e", cpus=2))
    before = digest_of(rig.engine)
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(blocked=3), "by the rules of batch work two have a place"
    assert plan.creates == ()
    assert plan.most_usd_per_hour == 0
    assert [reason.code for reason in plan.waiting] == ["no_room"]
    assert digest_of(rig.engine) == before
    rig.submit_job(job, containers)
    assert rig.created_types() == []
    whys = (rig.engine.why_waiting(container.id) for container in containers)
    assert {why.message for why in whys if why is not None} == {plan.waiting[0].message}


def test_an_elastic_job_is_planned_with_its_essential_containers_first() -> None:
    rig = Rig(make_type(2), settings=SchedulerSettings(max_instances=2))
    job, _ = elastic_job(9, essential(3, "e", cpus=1), elastic(4))
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(place=3, later=4)
    assert [(each.type_name, each.number) for each in plan.creates] == [("t2", 2)]
    assert plan.most_usd_per_hour == Decimal("0.492")
    assert [reason.code for reason in plan.waiting] == ["booting"]


def test_elastic_containers_that_give_way_are_named() -> None:
    rig = elastic_rig(5)
    submit_elastic(rig, 1, essential(1, "e"), elastic(3))
    job, _ = elastic_job(9, essential(3, "f"))
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(place=3, preempt=2)
    assert [(step.instance_id, step.action, step.detail) for step in plan.steps] == [
        ("i-001", "place", "1 container of f: started at once"),
        ("i-001", "place", "2 containers of f: room on a t5, not started yet"),
        ("i-001", "preempt", "c-1002-1, c-1003-1 must make way for it"),
    ]
    assert running(rig) == {"e": 1, "w": 3}


# ---- who makes way, and what others do -----------------------------------------------------------


def test_who_makes_way_for_a_batch_job_is_named() -> None:
    settings = SchedulerSettings(max_instances=1, preempt_from_priority=600)
    rig = DaemonRig(make_type(1), pool=LONG, settings=settings)
    rig.submit(make_container(1, cpus=1, priority=100))
    rig.advance(60)
    job, _ = make_job(9, make_task(""), priority=900)
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(blocked=1, preempt=1)
    assert [reason.code for reason in plan.waiting] == ["evicting"]
    *_, step = plan.steps
    assert (step.instance_id, step.action) == ("i-001", "preempt")
    assert step.detail == "c-1-1 must make way for it"
    assert rig.attempts["c-1-1"].intended_outcome is None


def test_what_is_created_for_others_is_no_part_of_a_plan() -> None:
    rig = Rig(make_type(1), make_type(4), settings=SchedulerSettings(max_instances=9), listed=False)
    rig.submit(make_container(1, cpus=4), make_container(2, cpus=4))
    rig.silent |= {CreateInstance}
    # They are listed, and the pass that follows has not been made yet.
    (listing,) = [each for each in rig.sent if isinstance(each, ListInstances)]
    rig.engine.handle(Listed(op_id=listing.op_id, began_at=rig.now, instances=()), rig.now)
    job, _ = make_job(9, make_task("", size=2))
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(place=2)
    assert [(each.type_name, each.number) for each in plan.creates] == [("t1", 2)]
    assert plan.most_usd_per_hour == Decimal("0.246")


def test_before_the_first_listing_a_job_waits_for_that() -> None:
    rig = DaemonRig(make_type(1), pool=LONG, listed=False)
    for job in (make_job(9, make_task(""))[0], daemon()):
        plan = plan_job(rig.fork, job, rig.now)
        assert (plan.counts.place, plan.creates) == (0, ())
        assert [reason.code for reason in plan.waiting] == ["not_listed"]


@pytest.mark.parametrize("held", [False, True])
def test_a_job_that_starts_nothing_evicts_nobody_in_its_plan(held: bool) -> None:
    rig = DaemonRig(make_type(1, price="0.3"), pool=LONG)
    rig.submit(make_container(1, cpus=1, priority=100))
    rig.advance(60)
    job = replace(daemon(cpus=500, priority=1000 if held else 0), held=held)
    plan = plan_job(rig.fork, job, rig.now)
    assert plan.counts == Counts(blocked=1)
    assert plan.most_usd_per_hour == 0
    assert {reason.code for reason in plan.waiting} == {"job_held" if held else "held"}


def test_a_job_whose_budget_is_spent_starts_nothing_in_its_plan() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.send(BudgetStopsChanged(stops=(replace(STOP, whose="p"),)))
    plan = plan_job(rig.fork, daemon(), rig.now)
    assert plan.counts == Counts(blocked=1)
    assert [reason.message for reason in plan.waiting] == [STOP.sentence]


def test_of_a_job_with_runs_one_run_is_planned() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    job, _ = make_job(9, make_task("a", size=2), make_task("b", after=("j-9/a",)))
    terms = JobTypeSpec(parameters=Parameters(required=("N",)))
    plan = plan_job(rig.fork, replace(job, terms=terms), rig.now)
    assert plan.counts == Counts(place=2, later=1)
    assert Counter(each.type_name for each in plan.creates) == {"t1": 1}
    assert plan.creates[0].number == 2
    rig.join(number=3)
    nightly = daemon(type_=JobType.SYSBATCH)
    terms = replace(nightly.terms, schedule=Schedule(cron=("0 0 * * *",)))
    assert plan.of_run
    plan = plan_job(rig.fork, replace(nightly, terms=terms), rig.now)
    assert plan.counts == Counts(place=3)
    assert plan.of_run
    assert not plan_job(rig.fork, job, rig.now).of_run


# ---- jobs that run on each instance --------------------------------------------------------------


def test_a_system_job_is_planned_on_every_instance() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=3)
    before = digest_of(rig.engine)
    plan = plan_job(rig.fork, daemon(), rig.now)
    assert plan.counts == Counts(place=3)
    assert [step.action for step in plan.steps] == ["place"] * 3
    assert plan.most_usd_per_hour == 0
    assert digest_of(rig.engine) == before


def test_an_update_is_planned_by_what_changed() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=3)
    rig.submit_daemon(daemon(update=UpdateStrategy(max_parallel=1)))
    old = rig.jobs["j-1"]
    terms = old.terms.per_instance
    assert terms is not None
    next_terms = JobTypeSpec(per_instance=replace(terms, revision=2))

    def revised(**of_spec: object) -> Counts:
        task = replace(old.tasks[0], spec=replace(old.tasks[0].spec, **of_spec))  # type: ignore[arg-type]  # fields of a specification
        job = replace(old, tasks=(task,), terms=next_terms)
        return plan_job(rig.fork, job, rig.now, revises=True).counts

    assert revised(env=(("A", "1"),)) == Counts(update=3, later=2)
    assert revised(labels=(("a", "b"),)) == Counts(in_place=3)
    assert rig.starts() != []
    assert {c.attempts[-1].revision for c in rig.of_job("j-1")} <= {1}


def test_who_makes_way_may_need_an_instance_of_its_own() -> None:
    rig = DaemonRig(make_type(1, price="0.3"), pool=LONG)
    rig.submit(make_container(1, cpus=1, priority=100))
    rig.advance(60)
    plan = plan_job(rig.fork, daemon(cpus=500, priority=1000), rig.now)
    assert plan.counts == Counts(place=1, later=1, preempt=1)
    assert (plan.least_usd_per_hour, plan.most_usd_per_hour) == (Decimal(0), Decimal("0.3"))


def test_a_periodic_system_job_is_no_matter_of_types() -> None:
    """A plan is for each type of job: none is forgotten."""
    rig = DaemonRig(make_type(1), pool=LONG)
    for type_ in JobType:
        job = daemon(type_=type_) if type_.is_per_instance else make_job(9, make_task(""))[0]
        assert plan_job(rig.fork, replace(job, type=type_), rig.now) is not None
