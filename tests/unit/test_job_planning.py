"""What a job would come to: planned on a copy, with nothing changed."""

from __future__ import annotations

import copy
from dataclasses import replace
from decimal import Decimal

from dispatcher.desk.job_planning import MOST_THOUGHT_OF, plan_job
from dispatcher.jobs.model import JobType
from dispatcher.jobs.terms import Terms
from dispatcher.model import Dependency, SchedulerSettings
from dispatcher.planner.per_instance_counts import Counts
from dispatcher.planner.per_instance_rounds import UpdateStrategy
from tests.job_samples import make_job, make_task
from tests.per_instance_jobs_rig import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type


def of_engine(rig: DaemonRig) -> object:
    """Return what a plan must leave as it is."""
    engine = rig.engine
    slots = {k: s.seen_as() for k, s in sorted(engine.placing.roster.fleet.slots.items())}
    claims = copy.deepcopy(engine.placing.roster.fleet.claims)
    return slots, claims, dict(engine.ledger.containers), list(engine.pool.commands)


def test_a_batch_job_is_planned_onto_room_and_new_instances_and_nothing_is_changed() -> None:
    rig = DaemonRig(make_type(2, price="0.2"), pool=LONG)
    rig.submit(make_container(1, cpus=1))
    rig.advance(60)
    before = of_engine(rig)
    job, _ = make_job(9, make_task("", size=3))
    plan = plan_job(rig.engine, job, rig.now)
    assert plan.counts == Counts(place=3)
    (create,) = plan.creates
    assert (create.type_name, create.number) == ("t2", 1), "one fits beside what runs"
    assert plan.most_usd_per_hour == Decimal("0.2")
    assert of_engine(rig) == before


def test_what_finds_no_room_is_blocked_and_the_plan_says_why() -> None:
    rig = DaemonRig(make_type(1), pool=LONG, settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1, cpus=1))
    rig.advance(60)
    job, _ = make_job(9, make_task("", size=2))
    plan = plan_job(rig.engine, job, rig.now)
    assert plan.counts == Counts(blocked=2)
    assert [reason.code for reason in plan.waiting] == ["at_quota"]
    assert plan.creates == ()


def test_what_waits_for_others_is_later() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    after = (Dependency(of="j-9/a"),)
    job, _ = make_job(9, make_task("a"), make_task("b", after=after))
    plan = plan_job(rig.engine, job, rig.now)
    assert plan.counts == Counts(place=1, later=1)
    assert [reason.code for reason in plan.waiting] == ["after"]


def test_of_a_large_array_the_first_are_looked_at() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    job, _ = make_job(9, make_task("", size=MOST_THOUGHT_OF + 5))
    plan = plan_job(rig.engine, job, rig.now)
    assert plan.steps_left_out == 5
    assert plan.counts.place + plan.counts.blocked == MOST_THOUGHT_OF


def test_a_system_job_is_planned_on_every_instance() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=3)
    before = of_engine(rig)
    plan = plan_job(rig.engine, daemon(), rig.now)
    assert plan.counts == Counts(place=3)
    assert [step.action for step in plan.steps] == ["place"] * 3
    assert plan.most_usd_per_hour == 0
    assert of_engine(rig) == before


def test_an_update_is_planned_by_what_changed() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=3)
    rig.submit_daemon(daemon(update=UpdateStrategy(max_parallel=1)))
    old = rig.jobs["j-1"]
    terms = old.terms.per_instance
    assert terms is not None
    next_terms = Terms(per_instance=replace(terms, revision=2))

    def revised(**of_spec: object) -> Counts:
        task = replace(old.tasks[0], spec=replace(old.tasks[0].spec, **of_spec))  # type: ignore[arg-type]  # fields of a specification
        job = replace(old, tasks=(task,), terms=next_terms)
        return plan_job(rig.engine, job, rig.now).counts

    assert revised(env=(("A", "1"),)) == Counts(update=3, later=2)
    assert revised(labels=(("a", "b"),)) == Counts(in_place=3)
    assert rig.starts() != []
    assert {c.attempts[-1].revision for c in rig.of_job("j-1")} <= {1}


def test_who_makes_way_may_need_an_instance_of_its_own() -> None:
    rig = DaemonRig(make_type(1, price="0.3"), pool=LONG)
    rig.submit(make_container(1, cpus=1, priority=100))
    rig.advance(60)
    plan = plan_job(rig.engine, daemon(cpus=500, priority=1000), rig.now)
    assert plan.counts == Counts(place=1, later=1, preempt=1)
    assert (plan.least_usd_per_hour, plan.most_usd_per_hour) == (Decimal(0), Decimal("0.3"))


def test_a_periodic_system_job_is_no_matter_of_types() -> None:
    """A plan is for each type of job: none is forgotten."""
    rig = DaemonRig(make_type(1), pool=LONG)
    for type_ in JobType:
        job = daemon(type_=type_) if type_.is_per_instance else make_job(9, make_task(""))[0]
        assert plan_job(rig.engine, replace(job, type=type_), rig.now) is not None
