"""What becomes of containers whose instances the cloud takes back, or for which it has none."""

from __future__ import annotations

from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import Constraints, Preemptible, SchedulerSettings
from longshore.dispatcher.explain.explanation import explain
from longshore.dispatcher.input.quantities import Price
from longshore.dispatcher.scheduler.placement.preemptible import Waste
from longshore.drivers.errors import CapacityError, CloudError
from longshore.drivers.interface import InstanceType
from longshore.pool.messages import CreateInstance, InterruptionNoticed
from longshore.pool.model import PoolSettings
from tests.exposition import samples
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type

AT = "2026-01-31T23:59:59Z"
SPOT = make_type(1, name="spot", price="0.030", preemptible=True)
STEADY = make_type(1, name="steady", price="0.100")
LARGE = make_type(4, name="large", price="0.180")
REQUIRED = Constraints(preemptible=Preemptible.REQUIRED)
FACTOR = SchedulerSettings(max_price_factor=1.5)


def take_back(rig: Rig, number: int = 1, *, ran_s: float = 0.0) -> None:
    """Let the cloud take back the instance on which a container runs, with notice."""
    for _ in range(2000):
        container = rig.containers[f"c-{number}"]
        if container.state.value == "running":
            break
        rig.advance(1)
    rig.advance(ran_s)
    attempt = rig.containers[f"c-{number}"].attempts[-1]
    rig.send(InterruptionNoticed(worker_id=attempt.instance_id, at=AT))
    rig.exit(attempt.id, code=143)
    rig.cloud.pop(attempt.instance_id, None)
    rig.settle()


def types_of(rig: Rig, number: int = 1) -> list[str]:
    return [each.instance_type for each in rig.containers[f"c-{number}"].attempts]


# ---- too often ----------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [False, True])
def test_what_was_taken_back_too_often_goes_to_what_is_not_preemptible(crash: object) -> None:
    """It was started on the cheapest again and again: $0.10 is beyond the factor of $0.03."""
    rig = Rig(SPOT, STEADY, LARGE, settings=FACTOR)
    rig.submit(make_container(1))
    for _ in range(3):
        take_back(rig)
    if crash:
        rig.crash()
    rig.advance(120)
    assert types_of(rig) == ["spot", "spot", "spot", "steady"]
    assert rig.containers["c-1"].state.value == "running"
    assert "large" not in rig.created_types(), "the factor counts from the cheapest of them"


def test_only_what_the_cloud_took_back_counts() -> None:
    """Not: priority 0, an instance that an admin killed, and what its program did."""
    rig = Rig(SPOT, STEADY, settings=SchedulerSettings(max_reclaimed_attempts=1))
    rig.submit(make_container(1))
    rig.advance(30)
    rig.set_priority("c-1", 0)
    rig.exit("c-1-1", code=143)
    rig.set_priority("c-1", 500)
    rig.advance(30)
    where = rig.containers["c-1"].attempts[-1].instance_id
    del rig.cloud[where]
    rig.advance(300)
    assert [each.outcome and each.outcome.value for each in rig.containers["c-1"].attempts] == [
        "preempted",
        "lost",
        None,
    ]
    assert types_of(rig) == ["spot"] * 3
    take_back(rig)
    rig.advance(60)
    assert types_of(rig)[-1] == "steady"


def test_others_of_its_kind_go_on_as_before() -> None:
    rig = Rig(SPOT, STEADY, settings=FACTOR)
    rig.submit(make_container(1))
    for _ in range(3):
        take_back(rig)
    rig.submit(make_container(2))
    rig.advance(120)
    assert types_of(rig)[-1] == "steady"
    assert types_of(rig, 2) == ["spot"]


@pytest.mark.parametrize("constraints", [REQUIRED, Constraints()])
def test_what_can_run_on_nothing_else_goes_on_later_each_time_and_says_why(
    constraints: Constraints,
) -> None:
    types = (SPOT, STEADY) if constraints is REQUIRED else (SPOT,)
    rig = Rig(*types)
    rig.submit(make_container(1, constraints=constraints))
    waits = []
    for number in range(1, 13):
        take_back(rig)
        ended_at = rig.now
        why = rig.engine.why_waiting("c-1")
        if number > 1:
            assert why is not None
            assert why.code == "restart_delay"
            assert "the cloud took its instance back" in why.message
            assert f"{number} times" in why.message
        rig.advance(1000)
        waits.append(rig.containers["c-1"].attempts[-1].created_at - ended_at)
    assert waits == sorted(waits)
    assert 600 < waits[-1] <= 960
    assert set(types_of(rig)) == {"spot"}


def test_explain_says_what_it_has_given_up_and_what_the_factor_counts_from() -> None:
    rig = Rig(SPOT, STEADY, LARGE, settings=FACTOR)
    rig.create_error = lambda command: CapacityError("none left") if _steady(command) else None
    rig.submit(make_container(1))
    for _ in range(3):
        take_back(rig)
    rig.advance(30)
    waiting = explain(rig.view, rig.containers["c-1"], rig.now).waiting
    assert waiting is not None
    told = {each.name: each for each in waiting.types}
    assert told["spot"].rejections == (
        "preemptible, and the cloud took too many back (max_reclaimed_attempts)",
    )
    assert told["steady"].eligible
    assert "of steady, the cheapest that would do" in told["large"].rejections[0]


def _steady(command: CreateInstance) -> bool:
    return command.launch.type_name == "steady"


# ---- nothing to be had --------------------------------------------------------------------------


def short_of_spot(rig: Rig) -> None:
    def error(command: CreateInstance) -> CloudError | None:
        short = command.launch.type_name == "spot"
        return CapacityError("no spot capacity") if short else None

    rig.create_error = error


def test_what_cannot_be_had_for_long_is_waited_for_no_more() -> None:
    rig = Rig(SPOT, STEADY, LARGE, settings=FACTOR)
    short_of_spot(rig)
    rig.submit(make_container(1))
    rig.advance(590)
    assert set(rig.created_types()) == {"spot"}
    why = rig.engine.why_waiting("c-1")
    assert why is not None
    assert why.code == "at_capacity"
    rig.advance(60)
    assert types_of(rig) == ["steady"]
    assert "large" not in rig.created_types()


def test_what_must_be_preemptible_waits_on() -> None:
    rig = Rig(SPOT, STEADY, settings=FACTOR)
    short_of_spot(rig)
    rig.submit(make_container(1, constraints=REQUIRED))
    rig.advance(3600)
    assert set(rig.created_types()) == {"spot"}
    why = rig.engine.why_waiting("c-1")
    assert why is not None
    assert why.code == "at_capacity"


def test_once_it_is_to_be_had_again_it_is_taken_again() -> None:
    """Each time that a hold ends one is tried, though nobody else would wait for it."""
    rig = Rig(SPOT, STEADY, settings=FACTOR, pool=PoolSettings(idle_timeout_s=5))
    short_of_spot(rig)
    for number in range(1, 8):
        rig.submit(make_container(number))
        rig.advance(200)
    tried = rig.created_types().count("spot")
    assert types_of(rig, 7) == ["steady"]
    rig.create_error = lambda _command: None
    for number in range(8, 20):
        rig.submit(make_container(number))
        rig.advance(200)
    assert rig.created_types().count("spot") > tried
    assert types_of(rig, 19) == ["spot"]


def test_what_is_on_its_way_is_not_given_up_when_one_is_tried() -> None:
    rig = Rig(SPOT, STEADY, settings=FACTOR)
    short_of_spot(rig)
    rig.submit(*(make_container(n) for n in range(1, 6)))
    rig.advance(3600)
    assert rig.created_types().count("steady") == 5
    assert all(types_of(rig, n) == ["steady"] for n in range(1, 6))


def test_explain_says_that_it_was_not_to_be_had() -> None:
    rig = Rig(SPOT, STEADY, settings=FACTOR)
    rig.create_error = lambda _command: CapacityError("none at all")
    rig.submit(make_container(1))
    rig.advance(700)
    waiting = explain(rig.view, rig.containers["c-1"], rig.now).waiting
    assert waiting is not None
    told = {each.name: each for each in waiting.types}
    assert "preemptible_patience_s" in told["spot"].rejections[0]
    assert told["steady"].eligible


# ---- what is lost of its use --------------------------------------------------------------------


def test_the_share_that_was_lost_counts_less_and_less() -> None:
    waste = Waste()
    assert waste.share("spot", 0.0) == 0
    waste.ran("spot", 600.0, reclaimed=False, now=1000.0)
    waste.ran("spot", 400.0, reclaimed=True, now=1000.0)
    assert waste.share("spot", 1000.0) == Decimal("0.40")
    assert waste.share("spot", 1000.0 + 3600) == Decimal("0.40"), "of what counts as much less"
    assert waste.share("spot", 1000.0 + 4 * 3600) < Decimal("0.10")
    assert waste.share("spot", 1000.0 + 24 * 3600) == 0
    assert waste.share("other", 1000.0) == 0


def cheap_spot(price: str = "0.090") -> InstanceType:
    return make_type(1, name="spot", price=price, preemptible=True)


def test_a_type_that_is_taken_back_often_gets_dearer_than_another_until_it_is_forgotten() -> None:
    rig = Rig(cheap_spot(), STEADY, pool=PoolSettings(idle_timeout_s=5))
    rig.submit(make_container(1))
    take_back(rig, ran_s=600)
    rig.advance(60)
    assert types_of(rig) == ["spot", "steady"], "it was lost once, but all of its use was"
    assert samples(rig)["longshore_preemptible_waste_ratio", (("type", "spot"),)] == 1.0
    waiting = make_container(2, cpus=1)
    rig.submit(waiting)
    rig.advance(60)
    assert types_of(rig, 2) == ["steady"]
    rig.advance(24 * 3600)
    rig.submit(make_container(3))
    rig.advance(60)
    assert types_of(rig, 3) == ["spot"]


def test_a_surcharge_is_no_cost_and_counts_against_no_ceiling() -> None:
    settings = SchedulerSettings(max_hourly_spend_usd=Price("0.095"))
    rig = Rig(cheap_spot(), settings=settings)
    dear = Constraints(max_price_usd_per_hour=Decimal("0.095"))
    rig.submit(make_container(1, constraints=dear))
    take_back(rig, ran_s=600)
    rig.advance(60)
    assert types_of(rig) == ["spot", "spot"]
    assert {each.price_usd_per_hour for each in rig.containers["c-1"].attempts} == {
        Decimal("0.090")
    }


def test_explain_tells_the_surcharge() -> None:
    rig = Rig(cheap_spot(), STEADY)
    rig.submit(make_container(1))
    take_back(rig, ran_s=600)
    rig.submit(make_container(2, cpus=9))
    rig.advance(1)
    waiting = explain(rig.view, rig.containers["c-2"], rig.now).waiting
    assert waiting is not None
    assert {each.name: each.waste for each in waiting.types} == {"spot": 1, "steady": 0}
    assert [each.name for each in waiting.types] == ["steady", "spot"]
