"""From which of several instances preemption evicts, who may evict whom, and what victims hear."""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations

import msgspec
import pytest

from longshore.dispatcher.scheduler.placement.preemption import (
    Eviction,
    PreemptionSettings,
    PreemptorKind,
    choose,
    may_evict,
)
from tests.rigs.preemption import amounts, running

SYSTEM, SYSBATCH = PreemptorKind.SYSTEM, PreemptorKind.SYSBATCH
BATCH, SUPERVISOR = PreemptorKind.BATCH, PreemptorKind.SUPERVISOR


def eviction(id_: str, price: str, *lost: tuple[int, float | None]) -> Eviction:
    """Return an eviction of victims of these priorities that began at these times."""
    return Eviction(
        slot_id=id_,
        price_usd_per_hour=Decimal(price),
        victims=tuple(
            running(f"{id_}-{number}", priority, amounts(1), began_at=began_at)
            for number, (priority, began_at) in enumerate(lost)
        ),
    )


@pytest.mark.parametrize(
    ("evictions", "expected"),
    [
        pytest.param([eviction("a", "1", (9, 0.0)), eviction("b", "9")], "b", id="none-at-all"),
        pytest.param(
            [eviction("a", "1", (300, 90.0)), eviction("b", "9", (200, 0.0))], "b", id="a-lower-one"
        ),
        pytest.param(
            [eviction("a", "1", (200, 90.0), (200, 90.0)), eviction("b", "9", (200, 0.0))],
            "b",
            id="fewer-of-one-priority",
        ),
        pytest.param(
            [eviction("a", "1", (300, 90.0)), eviction("b", "9", (100, 0.0), (100, 0.0))],
            "b",
            id="two-low-ones-rather-than-a-high-one",
        ),
        pytest.param(
            [eviction("a", "1", *[(290, 90.0)] * 9), eviction("b", "9", (300, 0.0))],
            "b",
            id="one-rather-than-many-hardly-lower-ones",
        ),
        pytest.param(
            [eviction("a", "1", (100, 90.0), (100, 90.0)), eviction("b", "9", (200, 0.0))],
            "b",
            id="equal-sums-fewer",
        ),
        pytest.param(
            [eviction("a", "1", (100, 80.0)), eviction("b", "9", (100, 81.0))], "b", id="younger"
        ),
        pytest.param(
            [eviction("a", "1", (100, 99.0)), eviction("b", "9", (100, None))], "b", id="not-begun"
        ),
        pytest.param(
            [
                eviction("a", "1", (100, None), (100, 70.0)),
                eviction("b", "9", (100, 90.0), (100, 90.0)),
            ],
            "b",
            id="less-work-in-all",
        ),
        pytest.param(
            # On an instance's clock that is ahead of ours: it has hardly run.
            [eviction("a", "9", (100, 200.0)), eviction("b", "1", (100, 100.0))],
            "b",
            id="no-work-is-never-less-than-none",
        ),
        pytest.param(
            [eviction("a", "0.2", (100, 9.0)), eviction("b", "0.1", (100, 9.0))],
            "b",
            id="the-cheaper-instance",
        ),
        pytest.param(
            [eviction("c", "1", (100, 9.0)), eviction("b", "1", (100, 9.0))], "b", id="by-id"
        ),
    ],
)
def test_among_instances_the_least_is_lost(evictions: list[Eviction], expected: str) -> None:
    for order in permutations(evictions):
        found = choose(order, 100.0)
        assert found is not None
        assert found.slot_id == expected


def test_there_may_be_none_to_choose_from() -> None:
    assert choose([], 100.0) is None


@pytest.mark.parametrize(
    ("settings", "by", "priority", "allowed"),
    [
        (PreemptionSettings(), SYSTEM, 1, True),
        (PreemptionSettings(), SYSBATCH, 1000, False),
        (PreemptionSettings(), BATCH, 1000, False),
        (PreemptionSettings(), SUPERVISOR, 1000, False),
        (PreemptionSettings(system=False), SYSTEM, 1000, False),
        (PreemptionSettings(sysbatch=True), SYSBATCH, 1, True),
        (PreemptionSettings(batch=800), BATCH, 799, False),
        (PreemptionSettings(batch=800), BATCH, 800, True),
        (PreemptionSettings(batch=800), SUPERVISOR, 800, True),
        (PreemptionSettings(batch=800), SYSBATCH, 1000, False),
        (PreemptionSettings(system=False, batch=1), SYSTEM, 1000, False),
    ],
)
def test_preemption_is_on_for_system_and_a_switch_each_for_sysbatch_and_batch(
    settings: PreemptionSettings, by: PreemptorKind, priority: int, allowed: bool
) -> None:
    assert settings.allows(by, priority) is allowed


@pytest.mark.parametrize("wrong", ['{"batch": 0}', '{"batch": 1001}', '{"service": true}'])
def test_the_settings_have_bounds(wrong: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(wrong, type=PreemptionSettings)


@pytest.mark.parametrize(
    ("by", "allowed"),
    [
        (SYSTEM, {BATCH, SUPERVISOR, SYSTEM, SYSBATCH}),
        (SYSBATCH, {BATCH, SUPERVISOR, SYSTEM, SYSBATCH}),
        (BATCH, {BATCH}),
        (SUPERVISOR, {BATCH}),
    ],
)
def test_batch_spares_supervisors_and_per_instance_jobs(
    by: PreemptorKind, allowed: set[PreemptorKind]
) -> None:
    assert {whom for whom in PreemptorKind if may_evict(by, whom)} == allowed
