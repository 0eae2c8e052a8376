"""Quotas of the cloud's as the whole engine lives with them: nothing starved, and no bursts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from longshore.dispatcher.domain.containers import (
    Constraints,
    Container,
    Placement,
    SchedulerSettings,
)
from longshore.dispatcher.explain.explanation import explain
from longshore.drivers.errors import CloudError, ErrorScope, QuotaError
from longshore.drivers.interface import InstanceType
from longshore.pool.messages import CreateInstance
from longshore.pool.model import PoolSettings
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container, make_type

EXCLUSIVE = SchedulerSettings(placement=Placement.EXCLUSIVE)
LATE = PoolSettings(sync_interval_s=100_000)
GROUPS = {"t1": "standard", "t2": "standard", "t16": "standard", "gpu": "gpu"}
TYPES = (make_type(1), make_type(2), make_type(16), make_type(4, name="gpu"))
HOUR_S = 3600.0

Refusal = Callable[[CreateInstance], CloudError | None]


def only(name: str) -> Constraints:
    return Constraints(instance_types=(name,))


def wants(number: int, name: str, *, priority: int = 500) -> Container:
    return make_container(number, priority=priority, constraints=only(name))


def refusing(name: str, scope: ErrorScope) -> Refusal:
    error = QuotaError("VcpuLimitExceeded: 8 vcpus at most", scope=scope)
    return lambda command: error if command.launch.type_name == name else None


def made_of(rig: Rig, name: str) -> int:
    return rig.created_types().count(name)


def told(rig: Rig, container_id: str) -> str:
    reason = rig.engine.scheduling.reason(container_id)
    assert reason is not None
    return f"{reason.code}: {reason.message}"


# ---- what is never allowed -----------------------------------------------------------------------


@pytest.mark.parametrize("scope", list(ErrorScope))
@pytest.mark.parametrize("most", [100, 2])
def test_who_is_never_allowed_keeps_nobody_waiting_and_is_tried_once_a_hold(
    scope: ErrorScope, most: int
) -> None:
    settings = SchedulerSettings(placement=Placement.EXCLUSIVE, max_instances=most)
    rig = Rig(*TYPES, settings=settings, quota_groups=GROUPS)
    rig.create_error = refusing("t16", scope)
    rig.submit(wants(1, "t16", priority=900), *(wants(n, "t1") for n in range(2, 6)))
    rig.submit(wants(6, "gpu"))
    ended: set[str] = set()
    for _ in range(int(HOUR_S / 30)):
        rig.advance(30)
        for attempt_id, attempt in sorted(rig.attempts.items()):
            if attempt.outcome is None and attempt_id not in ended:
                ended.add(attempt_id)
                rig.exit(attempt_id)
    rest = {state for id_, state in rig.states().items() if id_ != "c-1"}
    assert rest == {"succeeded"}
    assert rig.states()["c-1"] == "queued"
    assert 50 <= made_of(rig, "t16") <= 64, "it is tried, once a minute"
    assert made_of(rig, "t1") <= 4 + 4, "those that came beside the first try may have gone again"


def test_the_reason_says_what_to_do_about_it() -> None:
    rig = Rig(*TYPES, settings=EXCLUSIVE, pool=LATE, quota_groups=GROUPS)
    rig.create_error = refusing("t16", ErrorScope.GROUP)
    rig.submit(wants(1, "t16"))
    assert told(rig, "c-1") == (
        "at_quota: no creates before 1970-01-01T00:17:40Z: VcpuLimitExceeded: 8 vcpus at most;"
        " there is no instance of t16 that could leave, so the cloud may never allow one: ask it"
        " for a higher limit, or allow another instance type"
    )
    assert rig.states()["c-1"] == "queued", "nothing is coming for it"


def test_explain_says_it_of_each_type_that_is_refused() -> None:
    rig = Rig(*TYPES, settings=EXCLUSIVE, pool=LATE, quota_groups=GROUPS)
    rig.create_error = refusing("t16", ErrorScope.GROUP)
    rig.submit(wants(1, "t16"))
    waiting = explain(rig.view, rig.containers["c-1"], rig.now).waiting
    assert waiting is not None
    verdicts = {verdict.name: verdict.blocked_by for verdict in waiting.types}
    assert verdicts["t16"] == (
        "none allowed by the cloud's quota until 1970-01-01T00:17:40Z: VcpuLimitExceeded: 8 vcpus"
        " at most"
    )
    assert verdicts["t1"] == verdicts["gpu"] == ""
    assert waiting.reason is not None
    assert "ask it for a higher limit, or allow another instance type" in waiting.reason.message


def test_when_the_limit_is_raised_it_runs_after_the_hold() -> None:
    rig = Rig(*TYPES, settings=EXCLUSIVE, quota_groups=GROUPS)
    rig.create_error = refusing("t16", ErrorScope.GROUP)
    rig.submit(wants(1, "t16"), wants(2, "t1"))
    rig.advance(HOUR_S)
    rig.create_error = lambda _command: None
    rig.advance(61)
    assert rig.states() == {"c-1": "running", "c-2": "running"}


def test_its_trials_end_nothing_that_runs_or_waits_for_room_below_it() -> None:
    """One that was refused alone is refused again while smaller ones are there: these are left."""
    rig = Rig(*TYPES, settings=EXCLUSIVE, quota_groups=GROUPS)
    rig.create_error = refusing("t16", ErrorScope.GROUP)
    rig.submit(wants(1, "t16", priority=900))
    rig.submit(wants(2, "t1"), wants(3, "t1"))
    rig.advance(HOUR_S)
    rig.exit("c-2-1")
    rig.submit(wants(4, "t1"))
    assert rig.states()["c-4"] == "running", "on the instance that became free, at once"
    assert rig.created_types().count("t1") == 2


def test_what_is_refused_just_after_another_has_left_is_not_held_to_be_impossible() -> None:
    """The cloud may count it for a while yet: who is next in line must not be passed over."""
    rig = Rig(*TYPES, settings=EXCLUSIVE, pool=PoolSettings(idle_timeout_s=5), quota_groups=GROUPS)
    rig.submit(wants(1, "t16"))
    rig.exit("c-1-1")
    rig.advance(10)
    assert rig.cloud == {}
    rig.create_error = lambda _command: QuotaError("one at most")
    rig.submit(wants(2, "t16", priority=900))
    rig.submit(wants(3, "t1"))
    assert made_of(rig, "t1") == 0
    rig.create_error = lambda _command: QuotaError("one at most") if rig.cloud else None
    rig.advance(61)
    assert rig.states()["c-2"] == "running"


def test_at_max_instances_a_trial_for_the_impossible_stops_nobody() -> None:
    settings = SchedulerSettings(placement=Placement.EXCLUSIVE, max_instances=1)
    rig = Rig(*TYPES, settings=settings, quota_groups=GROUPS)
    rig.create_error = refusing("t16", ErrorScope.GROUP)
    rig.submit(wants(1, "t16", priority=900))
    rig.submit(wants(2, "t1"), wants(3, "t1"))
    rig.advance(120)
    rig.exit("c-2-1")
    assert rig.states()["c-3"] == "running", "on the same instance"
    assert made_of(rig, "t1") == 1


# ---- bursts --------------------------------------------------------------------------------------


class Account:
    """A cloud that allows so many instances, and what it came to: refusals, departures, unlocks."""

    def __init__(self, rig: Rig, most: int) -> None:
        self.rig, self.most = rig, most
        self.refused = 0
        self.unlocked: Counter[str] = Counter()
        rig.create_error = self._refuse
        table = rig.engine.table
        unlock = table.unlock

        def count(container_id: str) -> None:
            self.unlocked[container_id] += 1
            unlock(container_id)

        table.unlock = count  # type: ignore[method-assign]  # counted, and done

    def _refuse(self, _command: CreateInstance) -> CloudError | None:
        if len(self.rig.cloud) < self.most:
            return None
        self.refused += 1
        return QuotaError(f"{self.most} at most", scope=ErrorScope.ALL)

    @property
    def departed(self) -> int:
        return self.rig.kinds().count("DestroyInstance")


def test_when_one_leaves_as_many_are_created_as_are_known_to_be_allowed() -> None:
    """Quota 2, 12 waiting, one place free: there were 11 creates, 10 of them refused."""
    rig = Rig(make_type(1), settings=EXCLUSIVE, pool=PoolSettings(sync_interval_s=1))
    account = Account(rig, 2)
    rig.submit(*(make_container(n) for n in range(1, 15)))
    rig.advance(5)
    assert len(rig.cloud) == 2
    before, refused = len(rig.created_types()), account.refused
    account.unlocked.clear()
    leaving = rig.started_on()["c-1"]
    del rig.cloud[leaving]
    rig.cancel("c-1")
    rig.advance(10)
    assert len(rig.cloud) == 2
    assert len(rig.created_types()) - before <= 2
    assert account.refused - refused <= 1
    assert sum(account.unlocked.values()) <= 1


def test_of_those_who_are_to_go_where_one_may_be_refused_the_first_is_locked() -> None:
    rig = Rig(make_type(8), pool=PoolSettings(sync_interval_s=100_000))
    account = Account(rig, 1)
    rig.submit(make_container(1, cpus=8))
    rig.submit(*(make_container(n) for n in range(2, 10)))
    rig.silent.add(CreateInstance)
    rig.advance(61)
    states = Counter(rig.states().values())
    assert states == {"running": 1, "locked": 1, "queued": 7}, "one create tries the quota"
    assert told(rig, "c-9").startswith("instance_creating: it has a place on a new t8")
    account.most = 2
    rig.create_now(last_commands(rig, CreateInstance)[-1])
    rig.settle()
    assert Counter(rig.states().values()) == {"running": 9}


def test_a_limit_that_is_raised_is_found_within_a_hold_and_used() -> None:
    rig = Rig(make_type(1), settings=EXCLUSIVE)
    account = Account(rig, 2)
    rig.submit(*(make_container(n) for n in range(1, 11)))
    rig.advance(10)
    account.most = 8
    rig.advance(65)
    assert len(rig.cloud) == 8


def end_some(rig: Rig, number: int, ended: set[str]) -> None:
    """Let the oldest containers that run end."""
    running = sorted(rig.attempts.values(), key=lambda attempt: attempt.created_at)
    for attempt in [a for a in running if a.outcome is None and a.id not in ended][:number]:
        ended.add(attempt.id)
        rig.exit(attempt.id)


@pytest.mark.parametrize("placement", list(Placement))
def test_in_a_stress_each_departure_costs_at_most_one_refusal_and_one_unlock(
    placement: Placement,
) -> None:
    """150 containers of several sizes and priorities, on a quota of 4."""
    settings = SchedulerSettings(placement=placement)
    types: tuple[InstanceType, ...] = tuple(make_type(n) for n in (1, 2, 4, 8))
    rig = Rig(*types, settings=settings, pool=PoolSettings(sync_interval_s=2, idle_timeout_s=5))
    account = Account(rig, 4)
    ended: set[str] = set()
    for first in range(1, 151, 10):
        numbers = range(first, first + 10)
        rig.submit(
            *(
                make_container(n, cpus=(1, 2, 4, 8)[n % 4], priority=1 + n * 37 % 1000)
                for n in numbers
            )
        )
        rig.advance(3)
    for _ in range(2000):
        if set(rig.states().values()) == {"succeeded"}:
            break
        end_some(rig, 2, ended)
        rig.advance(4)
    assert set(rig.states().values()) == {"succeeded"}
    rig.advance(60)
    assert account.refused <= account.departed
    assert sum(account.unlocked.values()) <= account.departed
