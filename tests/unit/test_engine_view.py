"""The walls around the engine: what reads it changes nothing, and hands out nothing that does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import get_args, get_type_hints

import pytest

from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.scheduler.batch.scheduling_pass import SchedulingPass
from longshore.dispatcher.scheduler.placement.workload import WorkloadSchedulers
from longshore.dispatcher.state.containers import ContainerTable
from longshore.dispatcher.state.dependencies import Workflow
from longshore.dispatcher.state.job_registry import JobRegistry
from longshore.dispatcher.state.queue import Queue
from longshore.dispatcher.state.scheduling_gates import SchedulingGates
from longshore.drivers.interface import Leftover
from longshore.pool.core import PoolCore
from longshore.pool.create_backoff import CreateBackoff
from longshore.pool.messages import CreateInstance
from longshore.pool.view import PoolView
from tests.job_samples import make_job, make_task
from tests.rigs.elastic_jobs import elastic, elastic_job, essential
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type
from tests.state_digest import digest_of

DECIDES_OR_IS_DECIDED_ON = (
    Engine,
    PoolCore,
    CreateBackoff,
    ContainerTable,
    JobRegistry,
    Queue,
    SchedulingGates,
    Workflow,
    SchedulingPass,
    WorkloadSchedulers,
)
VIEWS = (EngineView, PoolView)


@pytest.fixture
def rig() -> DaemonRig:
    """Return an engine that knows of something of every kind, and whose limit has been lowered."""
    rig = DaemonRig(make_type(1), make_type(4), pool=LONG)
    rig.submit_daemon(daemon())
    rig.submit(*(make_container(number, cpus=number % 3 + 1) for number in range(1, 6)))
    rig.advance(60)
    rig.submit_job(*elastic_job(50, essential(2, "e"), elastic(2)))
    task = make_task("a", size=4, max_running=2, not_before=rig.now + 60)
    rig.submit_job(*make_job(51, task, make_task("b", after=("j-51/a",))))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(9, cpus=4), make_container(10, cpus=4, priority=0))
    rig.engine.concurrency.overloaded(5, rig.now, "the store is slow")
    return rig


def public(view: type) -> list[str]:
    return [name for name in vars(view) if not name.startswith("_")]


def looks_at_engine(rig: DaemonRig) -> dict[str, Callable[[], object]]:
    """Return a call of each method of `EngineView` that takes something."""
    view, now = rig.view, rig.now + 3600.0
    waiting, running = view.containers["c-9"], view.containers["c-1"]
    job = next(job for each in view.job_ids() if (job := view.job(each)) is not None)
    key, type_ = view.key_of(waiting), make_type(4)
    return {
        "container": lambda: view.container("c-9"),
        "of_attempt": lambda: view.of_attempt("c-1-1"),
        "zones_in_use": view.zones_in_use,
        "on_the_meter": view.on_the_meter,
        "awaits_log": lambda: view.awaits_log("c-1-1"),
        "decisions": lambda: view.decisions(kinds=None, before=None, limit=9),
        "history": lambda: view.history(waiting, key, now, None),
        "wait_reason": lambda: [view.wait_reason(each) for each in view.containers],
        "without_key": view.without_key,
        "held_reason": lambda: view.held_reason(waiting),
        "class_reason": lambda: view.class_reason(key),
        "blocking_chain": lambda: [view.blocking_chain(each) for each in view.containers],
        "gates": lambda: view.gates("c-10"),
        "is_gated": lambda: view.is_gated("c-10"),
        "released_at": lambda: view.released_at("c-10"),
        "position": lambda: view.position("c-9"),
        "queue_after": lambda: view.queue_after(((-500, 1), "c-1"), 5),
        "place_in_queue": lambda: view.place_in_queue("c-9"),
        "key_of": lambda: view.key_of(make_container(99, cpus=3)),
        "kinds_with": lambda: view.kinds_with({view.key_of(make_container(99, cpus=3))}),
        "queue_stats": view.queue_stats,
        "waiting_since": lambda: (view.waiting_since(None), view.waiting_since(["p"])),
        "state_counts": view.state_counts,
        "ended_counts": lambda: view.ended_counts(now),
        "class_counts": view.class_counts,
        "held_back": view.held_back,
        "first_of_class": lambda: view.first_of_class(key, 5),
        "waiting_with_place": view.waiting_with_place,
        "number_without_place": lambda: view.number_without_place(lambda _why: True),
        "job": lambda: view.job(job.id),
        "job_ids": view.job_ids,
        "runs_of": lambda: view.runs_of(job.id),
        "job_type": lambda: view.job_type(job.id),
        "containers_of": lambda: view.containers_of(job.id),
        "job_states": view.job_states,
        "jobs_ended": view.jobs_ended,
        "why_nowhere": lambda: view.why_nowhere(job, now),
        "job_trouble": lambda: view.job_trouble(job, now),
        "job_troubles": lambda: list(view.job_troubles(now)),
        "instances": view.instances,
        "bill_of": lambda: [view.bill_of(each) for each in (*view.pool.workers, "i-none")],
        "running_on": lambda: view.running_on(["c-1-1"]),
        "types": view.types,
        "eligible_types": lambda: view.eligible_types(waiting),
        "allocatable_left": lambda: view.allocatable_left(type_),
        "types_given_up": lambda: view.types_given_up(key),
        "claimed_slot": lambda: view.claimed_slot("c-9"),
        "place_of": lambda: [view.place_of(each) for each in view.containers.values()],
        "reservations": view.reservations,
        "daemon_reservations": view.daemon_reservations,
        "limit_of_containers": lambda: view.limit_of_containers(now),
        "limit_of_supervisors": lambda: view.limit_of_supervisors(5),
        "spending": view.spending,
        "spending_of": lambda: view.spending_of(running),
        "all_spending": view.all_spending,
        "pass_stats": view.pass_stats,
        "preemptible_waste": view.preemptible_waste,
    }


def looks_at_pool(rig: DaemonRig) -> dict[str, Callable[[], object]]:
    """Return a call of each method of `PoolView` that takes something."""
    pool, now = rig.view.pool, rig.now + 3600.0
    worker, type_ = next(iter(pool.workers.values())), make_type(4)
    left = Leftover(id="vol-1", kind="volume")
    return {
        "as_found": lambda: pool.as_found(type_),
        "is_unlisted": lambda: pool.is_unlisted(worker.id),
        "is_offline": lambda: pool.is_offline(worker, now),
        "number_of_instances": pool.number_of_instances,
        "numbers_by_type": pool.numbers_by_type,
        "kill_at": lambda: pool.kill_at("c-1-1"),
        "strays": pool.strays,
        "holds": lambda: pool.holds(now),
        "is_covered": lambda: [pool.is_covered(each, type_) for each in pool.holds(rig.now)],
        "create_blocks": lambda: pool.create_blocks(now)(type_),
        "at_quota": lambda: pool.at_quota(now),
        "create_troubles": pool.create_troubles,
        "is_listing_current": lambda: pool.is_listing_current(now),
        "leaks": lambda: pool.leaks(now),
        "leftover_leak": lambda: pool.leftover_leak(left, now),
    }


def test_no_look_changes_anything(rig: DaemonRig) -> None:
    before = digest_of(rig.engine)
    for view, looks in (
        (rig.view, looks_at_engine(rig)),
        (rig.view.pool, looks_at_pool(rig)),
    ):
        for name in public(type(view)):
            if isinstance(vars(type(view))[name], property):
                getattr(view, name)
            else:
                looks[name]()
            assert digest_of(rig.engine) == before, name


def returned(view: type) -> Iterator[tuple[str, object]]:
    """Yield what each look returns, and what is in that, by its annotation."""
    for name in public(view):
        member = vars(view)[name]
        found = [get_type_hints(member.fget if isinstance(member, property) else member)["return"]]
        while found:
            each = found.pop()
            found += get_args(each)
            yield name, each


@pytest.mark.parametrize("view", VIEWS)
def test_no_look_hands_out_what_decides_or_is_decided_on(view: type) -> None:
    found = list(returned(view))
    assert len(found) > len(public(view)) > 20
    assert [name for name, each in found if each in DECIDES_OR_IS_DECIDED_ON] == []


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_to_be_set(view: type) -> None:
    members = vars(view).values()
    assert not [each for each in members if isinstance(each, property) and each.fset is not None]
    assert inspect.getdoc(view)
