"""Properties of spending: whatever happens, no limit is exceeded by what the dispatcher decides."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import Container, Placement, SchedulerSettings
from longshore.dispatcher.input.quantities import Price
from longshore.dispatcher.state.spend_limits import share_of
from longshore.pool.messages import CreateInstance, Probe, StartAttempt
from longshore.pool.model import PoolSettings
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type

TYPES = [make_type(n, price=price) for n, price in ((1, "0.11"), (2, "0.2"), (4, "0.37"))]
BY_NAME = {type_.name: type_ for type_ in TYPES}
PROJECTS, USERS = ("alpha", "beta"), ("ann", "bob")
PRICES = st.sampled_from(["0.15", "0.3", "0.5", "0.9"]).map(Price)


@st.composite
def limits(draw: st.DrawFn) -> SchedulerSettings:
    return SchedulerSettings(
        max_price_factor=4,
        placement=draw(st.sampled_from(list(Placement))),
        max_instances=draw(st.sampled_from([2, 100])),
        max_hourly_spend_usd=draw(st.none() | PRICES),
        max_hourly_spend_usd_per_project=draw(
            st.dictionaries(st.sampled_from([*PROJECTS, "*"]), PRICES, max_size=2)
        ),
        max_hourly_spend_usd_per_user=draw(
            st.dictionaries(st.sampled_from([*USERS, "*"]), PRICES, max_size=2)
        ),
    )


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "exit", "die", "wait", "boots", "create", "crash"]),
        st.integers(0, 200),
    ),
    max_size=25,
)


def check(rig: Rig, configured: SchedulerSettings) -> None:
    """Raise unless what is billed and occupied, added up here anew, is within the limits."""
    pool, fleet = rig.engine.pool, rig.engine.scheduling.fleet_sync.fleet
    billed = [worker.type.price_usd_per_hour for worker in pool.workers.values()]
    billed += [BY_NAME[p.launch.type_name].price_usd_per_hour for p in pool.expected_launches()]
    if configured.max_hourly_spend_usd is not None:
        assert sum(billed, Decimal(0)) <= configured.max_hourly_spend_usd
    occupied: Counter[tuple[str, str]] = Counter()
    for container in rig.engine.table.containers.values():
        if container.has_open_attempt:
            type_ = BY_NAME[container.attempts[-1].instance_type]
            _add(occupied, container, type_.name, configured.placement)
        slot = rig.engine.scheduling.claimed_slot(container.id)
        if slot is not None and slot.id in fleet.slots:
            _add(occupied, container, slot.type.name, configured.placement)
    for (kind, name), millionths in occupied.items():
        of_kind = {
            "project": configured.max_hourly_spend_usd_per_project,
            "user": configured.max_hourly_spend_usd_per_user,
        }[kind]
        limit = of_kind.get(name, of_kind.get("*"))
        assert limit is None or Decimal(millionths) / 1_000_000 <= limit, (kind, name)


def _add(
    occupied: Counter[tuple[str, str]], container: Container, type_name: str, placement: Placement
) -> None:
    type_ = BY_NAME[type_name]
    cost = type_.price_usd_per_hour * share_of(container.spec.resources, type_, placement)
    for subject in (("project", container.project), ("user", container.user)):
        occupied[subject] += int(cost * 1_000_000)


def step(rig: Rig, what: str, number: int, index: int) -> None:
    """Let one thing happen."""
    running = sorted(id_ for id_, a in rig.attempts.items() if a.outcome is None)
    running = [id_ for id_ in running if id_ in rig.on_instance.get(_where(rig, id_), {})]
    match what:
        case "submit":
            container = make_container(index, cpus=1 + number % 4, priority=1 + number % 5)
            project, user = PROJECTS[number % 2], USERS[number // 2 % 2]
            rig.submit(replace(container, project=project, user=user))
        case "exit" if running:
            rig.exit(running[number % len(running)])
        case "die" if rig.cloud:
            del rig.cloud[sorted(rig.cloud)[number % len(rig.cloud)]]
        case "boots":
            rig.silent ^= {Probe}
        case "create":
            rig.silent ^= {CreateInstance}
        case "crash":
            rig.crash()
        case _:
            pass
    rig.advance(float(number))


def _where(rig: Rig, attempt_id: str) -> str:
    return rig.attempts[attempt_id].instance_id


@given(limits(), STEPS)
def test_no_limit_is_exceeded_whatever_happens(
    configured: SchedulerSettings, steps: list[tuple[str, int]]
) -> None:
    rig = Rig(*TYPES, settings=configured, pool=PoolSettings(idle_timeout_s=20.0))
    for index, (what, number) in enumerate(steps, 1):
        step(rig, what, number, index)
        check(rig, configured)


@given(limits(), st.lists(st.integers(0, 200), min_size=1, max_size=12))
def test_what_can_be_paid_alone_runs_in_the_end(
    configured: SchedulerSettings, numbers: list[int]
) -> None:
    rig = Rig(*TYPES, settings=configured, pool=PoolSettings(idle_timeout_s=20.0))
    for index, number in enumerate(numbers, 1):
        step(rig, "submit", number, index)
    for _ in range(4 * len(numbers)):
        for attempt_id in sorted(id_ for id_, a in rig.attempts.items() if a.outcome is None):
            rig.exit(attempt_id)
        rig.advance(60.0)
    for container_id, state in rig.states().items():
        if state != "succeeded":
            reason = rig.engine.why_waiting(container_id)
            assert reason is not None
            assert "can never be" in reason.message, (container_id, reason)
    started = [c for c in rig.sent if isinstance(c, StartAttempt)]
    assert len(started) == list(rig.states().values()).count("succeeded")
