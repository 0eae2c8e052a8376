"""Supervisors at limits of instances: those that they wait for make progress."""

from __future__ import annotations

import itertools
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Container,
    Placement,
    SchedulerSettings,
)
from longshore.drivers.errors import CloudError, ErrorScope, QuotaError
from longshore.drivers.interface import InstanceType
from longshore.pool.messages import CreateInstance
from longshore.pool.model import PoolSettings
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type

CHILDREN = 3


class Workflows:
    """Supervisors that run until the children that each of them submits have ended."""

    def __init__(self, rig: Rig, *, cpus: int, child_cpus: int) -> None:
        self.rig, self.cpus, self.child_cpus = rig, cpus, child_cpus
        self._numbers = itertools.count(1)
        self._children: dict[str, list[str]] = {}
        self._since: dict[str, float] = {}
        self.most_at_once = 0

    def submit(self, count: int) -> None:
        """Submit supervisors, all at once."""
        numbers = itertools.islice(self._numbers, count)
        made = [make_container(n, cpus=self.cpus, priority=900) for n in numbers]
        self.rig.submit(*(replace(c, spec=replace(c.spec, supervisor=True)) for c in made))

    def run(self, seconds: float) -> None:
        """Let time pass: children end after 5 s, supervisors with the last of theirs."""
        for _ in range(int(seconds)):
            self.rig.advance(1)
            running = [a for a in self.rig.attempts.values() if a.outcome is None and a.started_at]
            supervisors = 0
            for attempt in sorted(running, key=lambda a: a.id):
                container = self.rig.containers[attempt.container_id]
                since = self._since.setdefault(attempt.id, self.rig.now)
                if not container.spec.supervisor:
                    if self.rig.now >= since + 5:
                        self.rig.exit(attempt.id)
                    continue
                supervisors += 1
                self._see_to(container, attempt.id)
            self.most_at_once = max(self.most_at_once, supervisors)

    def _see_to(self, supervisor: Container, attempt_id: str) -> None:
        if supervisor.id not in self._children:
            numbers = itertools.islice(self._numbers, CHILDREN)
            children = [make_container(n, cpus=self.child_cpus) for n in numbers]
            self._children[supervisor.id] = [child.id for child in children]
            self.rig.submit(*children)
        if all(self.rig.containers[c].state.final for c in self._children[supervisor.id]):
            self.rig.exit(attempt_id)

    @property
    def unfinished(self) -> list[str]:
        """Return the containers that have not succeeded."""
        ended = {
            a.container_id
            for a in self.rig.attempts.values()
            if a.outcome is AttemptOutcome.SUCCEEDED
        }
        return sorted(self.rig.containers.keys() - ended)


def with_quota(
    most: int, *types: InstanceType, groups: dict[str, str] | None = None, **settings: object
) -> Rig:
    """Return an engine whose cloud has a quota of all instances that nobody was told of."""
    rig = Rig(
        *types,
        settings=SchedulerSettings(**settings),  # type: ignore[arg-type]  # by name
        pool=PoolSettings(sync_interval_s=5, idle_timeout_s=10),
        quota_groups=groups,
    )
    scope = ErrorScope.GROUP if groups else ErrorScope.ALL

    def refuse(_command: CreateInstance) -> CloudError | None:
        return QuotaError(f"{most} at most", scope=scope) if len(rig.cloud) >= most else None

    rig.create_error = refuse
    return rig


@pytest.mark.parametrize(
    ("sizes", "cpus", "child_cpus", "placement"),
    [
        ((1,), 1, 1, Placement.EXCLUSIVE),
        ((1, 2, 4), 1, 4, Placement.EXCLUSIVE),
        ((1,), 1, 1, Placement.PACKED),
        ((4,), 1, 4, Placement.PACKED),
        ((4,), 2, 1, Placement.PACKED),
        ((1, 2, 8), 2, 8, Placement.PACKED),
    ],
)
def test_at_a_quota_of_the_clouds_children_make_progress(
    sizes: tuple[int, ...], cpus: int, child_cpus: int, placement: Placement
) -> None:
    rig = with_quota(4, *(make_type(size) for size in sizes), placement=placement)
    flows = Workflows(rig, cpus=cpus, child_cpus=child_cpus)
    # Enough that the quota is reached at once, and learnt of before they run.
    flows.submit(8 if placement is Placement.EXCLUSIVE else 24)
    flows.run(1200)
    assert flows.unfinished == []


def test_after_the_hold_is_over_the_quota_bounds_them_still() -> None:
    rig = with_quota(4, make_type(1), placement=Placement.EXCLUSIVE)
    flows = Workflows(rig, cpus=1, child_cpus=1)
    flows.submit(8)
    flows.run(400)
    assert flows.most_at_once == 1, "0.3 of four"


def test_types_with_a_quota_of_their_own_bound_who_may_be_on_these_only() -> None:
    types = (make_type(1), make_type(2, name="gpu"))
    groups = {"t1": "standard", "gpu": "gpu"}
    rig = with_quota(4, *types, groups=groups, placement=Placement.EXCLUSIVE)
    flows = Workflows(rig, cpus=1, child_cpus=1)
    flows.submit(8)
    flows.run(400)
    assert flows.unfinished == []


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("limit", [{"max_instances": 4}, {"max_hourly_spend_usd": Decimal("0.5")}])
def test_limits_of_our_own_bound_them_before_they_are_reached(
    limit: dict[str, Any], *, one_by_one: bool
) -> None:
    rig = with_quota(100, make_type(1), placement=Placement.EXCLUSIVE, **limit)
    flows = Workflows(rig, cpus=1, child_cpus=1)
    for _ in range(6 if one_by_one else 1):
        flows.submit(1 if one_by_one else 6)
        flows.run(3)
    flows.run(400)
    assert flows.unfinished == []
    assert flows.most_at_once <= 2, "0.3 of four is one, from when half of them are used"


def test_where_there_is_room_for_more_than_instances_more_of_them_run() -> None:
    rig = with_quota(100, make_type(16), placement=Placement.PACKED, max_instances=2)
    flows = Workflows(rig, cpus=1, child_cpus=1)
    flows.submit(12)
    flows.run(200)
    assert flows.unfinished == []
    assert flows.most_at_once == 9, "0.3 of what fits on two"


def test_a_create_that_tries_a_quota_is_no_room_beside_supervisors() -> None:
    """Seed 1672: while a third was tried at a quota of two, two supervisors took both."""
    rig = with_quota(2, make_type(1), supervisor_fraction=0.7)
    rig.submit(*(make_container(number, priority=100) for number in range(1, 4)))
    rig.advance(1)
    assert rig.engine.pool.holds.quotas.known(rig.now), "the quota is known"
    supervisors = [make_container(number, priority=900) for number in (10, 11)]
    rig.submit(*(replace(c, spec=replace(c.spec, supervisor=True)) for c in supervisors))
    rig.silent.add(CreateInstance)
    rig.exit("c-1-1")
    # The hold is over: one more than is known is tried, and not answered.
    rig.advance(900)
    assert rig.engine.pool.launches
    rig.exit("c-2-1")
    rig.advance(5)
    running = [n for n, state in rig.states().items() if state == "running"]
    assert sorted(running) == ["c-10", "c-3"]
