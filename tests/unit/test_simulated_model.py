"""The rules of the simulated cloud: what its calls answer, without machines and without a clock."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudError,
    ErrorScope,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import Existence
from longshore.drivers.simulated import model
from longshore.drivers.simulated.model import CloudModel, Creation, Happening
from longshore.drivers.simulated.parameters import SimulatedFaults, SimulatedParameters
from tests.driver_bench import TYPE
from tests.rigs.simulated import OTHER, OURS, SPOT, attempt, cloud, create, listed, story


def test_an_instance_boots_is_destroyed_and_is_forgotten() -> None:
    made = cloud(destroy_delay_s=3)
    machine = create(made, "a")
    assert machine.id == "i-sim-test-00001"
    assert story(made, until=9.9) == []
    assert not machine.booted
    assert story(made) == [(10, Happening.BOOTED, "01")]
    assert made.destroy(machine.id, 20)
    assert not made.destroy(machine.id, 21), "twice is no error"
    assert story(made) == [(23, Happening.ENDED, "01"), (23, Happening.FORGOTTEN, "01")]
    assert (machine.ended, machine.ended_at) == (True, 23)
    assert listed(made, 23) == []
    assert not made.destroy(machine.id, 24)
    with pytest.raises(InstanceNotFound):
        made.set_tags(machine.id, {}, 24)


def test_what_is_destroyed_early_never_boots() -> None:
    made = cloud(destroy_delay_s=30)
    made.destroy(create(made, "a").id, 1)
    assert [what for _, what, _ in story(made)] == [Happening.ENDED, Happening.FORGOTTEN]


def test_an_instance_can_end_by_itself() -> None:
    made = cloud()
    machine = create(made, "a")
    made.end(machine, 4)
    assert story(made) == [(4, Happening.ENDED, "01"), (4, Happening.FORGOTTEN, "01")]
    assert not machine.ending


def test_a_token_makes_one_instance_also_when_that_is_gone_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(model, "REMEMBERED_TOKENS", 2)
    made = cloud()
    first = create(made, "a")
    assert attempt(made, "a") == Creation(machine=first, is_new=False, error=None)
    for token in ("a", "b"):
        made.destroy(create(made, token).id, 0)
        story(made)
    assert create(made, "a") is first
    made.destroy(create(made, "c").id, 0)
    story(made)
    assert create(made, "a") is not first


# ---- limits ---------------------------------------------------------------------------------


def test_the_quota_counts_all_that_is_shown() -> None:
    made = cloud(quota=2, faults={"gone_lag_s": 100})
    first, _ = create(made, "a"), create(made, "b", type_=OTHER)
    assert isinstance(attempt(made, "c").error, QuotaError)
    made.destroy(first.id, 1)
    made.run_due(1)
    assert first.ended
    assert isinstance(attempt(made, "c", now=1).error, QuotaError)
    made.run_due(101)
    assert attempt(made, "c", now=101).error is None
    made.limits.quota = 0
    assert attempt(made, "d", now=101).error is None


def test_quotas_are_per_group_and_market() -> None:
    made = cloud(
        quota_groups={"t1": "standard", "t2": "standard"},
        group_quotas={"standard": 2, "standard/spot": 1},
    )
    assert [made.group_of(each) for each in (TYPE, OTHER, SPOT)] == ["standard"] * 3
    create(made, "a")
    create(made, "b", type_=OTHER)
    for token, type_ in (("c", TYPE), ("d", OTHER)):
        assert isinstance(attempt(made, token, type_=type_).error, QuotaError)
    create(made, "e", type_=SPOT)
    assert isinstance(attempt(made, "f", type_=SPOT).error, QuotaError)
    elsewhere = replace(TYPE, provider_type="t3")
    assert made.group_of(elsewhere) == ""
    create(made, "g", type_=elsewhere)


@pytest.mark.parametrize("scope", list(ErrorScope))
def test_a_shortage_reaches_as_far_as_it_says(scope: ErrorScope) -> None:
    made = cloud()
    made.limits.shortages["t1"] = scope
    error = attempt(made, "a").error
    assert isinstance(error, CapacityError)
    assert error.scope is scope
    assert attempt(made, "b", type_=OTHER).error is None
    del made.limits.shortages["t1"]
    assert attempt(made, "a").error is None


def test_capacity_is_counted_per_provider_type() -> None:
    made = cloud(capacity={"t1": 1})
    create(made, "a")
    error = attempt(made, "b", type_=SPOT).error
    assert isinstance(error, CapacityError)
    assert error.scope is ErrorScope.TYPE
    create(made, "b", type_=OTHER)


def test_limits_of_one_cloud_are_its_own() -> None:
    parameters = SimulatedParameters(capacity={"t1": 1})
    one, another = (
        CloudModel(parameters, name="x", dice=random.Random(), dice_of=random.Random)
        for _ in range(2)
    )
    one.limits.capacity["t1"] = 5
    assert another.limits.capacity == parameters.capacity == {"t1": 1}


# ---- faults of calls ------------------------------------------------------------------------

CALLS: dict[str, Callable[[CloudModel, str], object]] = {
    "create_errors": lambda made, _: create(made, "new"),
    "listing_errors": lambda made, _: made.listing({}, 0),
    "destroy_errors": lambda made, instance_id: made.destroy(instance_id, 0),
    "tag_errors": lambda made, instance_id: made.set_tags(instance_id, {"a": "b"}, 0),
}


@pytest.mark.parametrize("fault", sorted(CALLS))
@pytest.mark.parametrize("throttled", [False, True])
def test_a_call_that_fails_has_done_nothing(fault: str, *, throttled: bool) -> None:
    made = cloud()
    machine = create(made, "a")
    made.faults = msgspec.convert(
        {"rate_limits": 1, "retry_after_s": 7} if throttled else {fault: 1}, SimulatedFaults
    )
    with pytest.raises(CloudError) as caught:
        CALLS[fault](made, machine.id)
    assert isinstance(caught.value, RateLimitError) == throttled
    if isinstance(caught.value, RateLimitError):
        assert caught.value.retry_after_s == 7
    made.faults = SimulatedFaults()
    assert listed(made, 0) == ["01"]
    assert (machine.ending, machine.tags) == (False, OURS)
    for _, call in sorted(CALLS.items()):
        call(made, machine.id)


@pytest.mark.parametrize("fault", ["create_errors", "lost_answers", "false_alarms", "duplicates"])
def test_a_share_of_calls_is_a_share(fault: str) -> None:
    made = cloud(faults={fault: 0.25})
    creations = [attempt(made, f"token-{number}") for number in range(400)]
    failed = sum(each.error is not None for each in creations)
    repeated = len(listed(made, 0)) - len(made.machines)
    assert 60 <= (repeated if fault == "duplicates" else failed) <= 140


def test_a_rate_limit_may_be_silent_on_its_end() -> None:
    error = attempt(cloud(faults={"rate_limits": 1}), "a").error
    assert isinstance(error, RateLimitError)
    assert error.retry_after_s is None


def test_a_lost_answer_has_made_an_instance_and_a_false_alarm_none() -> None:
    made = cloud(faults={"lost_answers": 1})
    with pytest.raises(AmbiguousResult):
        create(made, "a")
    assert listed(made, 0, OURS) == ["01"]
    assert create(made, "a").id in made.machines, "the token tells, when it is asked again"
    made = cloud(faults={"false_alarms": 1})
    with pytest.raises(AmbiguousResult):
        create(made, "a")
    assert (listed(made, 0), made.next_due()) == ([], None)
    made.faults = SimulatedFaults()
    assert attempt(made, "a").is_new


# ---- faults of listings ---------------------------------------------------------------------


def test_a_listing_lacks_what_is_new_and_shows_what_is_gone() -> None:
    made = cloud(faults={"listing_lag_s": 100, "gone_lag_s": 100})
    machine = create(made, "a")
    appears = machine.fate.listed_after_s
    assert 0 < appears < 100
    assert listed(made, appears - 0.001) == []
    assert listed(made, appears) == ["01"]
    made.destroy(machine.id, 200)
    assert [machine for _, machine in made.run_due(200)] == [machine]
    assert machine.ended
    assert listed(made, 200) == ["01"]
    ((gone, what, _),) = story(made)
    assert what is Happening.FORGOTTEN
    assert 200 < gone < 300
    assert listed(made, gone) == []


def test_an_instance_may_be_listed_twice() -> None:
    made = cloud(faults={"duplicates": 1})
    create(made, "a")
    create(made, "b")
    assert listed(made, 0) == ["01", "01", "02", "02"]


def test_a_new_instance_lacks_its_late_tags_for_a_while() -> None:
    made = cloud(faults={"tag_lag_s": 100})
    shown = create(made, "a").fate.tagged_after_s
    assert 0 < shown < 100
    assert made.listing({}, shown - 0.001)[0][1] == {"cluster": "ours"}
    assert listed(made, shown - 0.001, OURS) == []
    assert made.listing({}, shown)[0][1] == OURS


def test_tags_that_were_set_are_shown_late() -> None:
    made = cloud(faults={"tag_lag_s": 100})
    machine = create(made, "a")
    made.set_tags(machine.id, {"more": "1"}, 200)
    assert machine.tags == {**OURS, "more": "1"}
    assert 200 < machine.tags_shown_from < 300
    assert made.listing({}, 200)[0][1] == OURS
    made.set_tags(machine.id, {"more": "2"}, 200)
    assert made.listing({}, machine.tags_shown_from - 0.001)[0][1] == OURS
    assert made.listing({}, machine.tags_shown_from)[0][1] == {**OURS, "more": "2"}
    made.faults = SimulatedFaults()
    made.set_tags(machine.id, {"more": "3"}, 400)
    assert made.listing({}, 400)[0][1] == {**OURS, "more": "3"}


def test_what_a_listing_tells_is_a_copy() -> None:
    made = cloud()
    create(made, "a")
    made.listing({}, 0)[0][1]["cluster"] = "theirs"
    assert listed(made, 0, {"cluster": "ours"}) == ["01"]


def test_asked_by_its_id_it_tells_what_has_ended_and_knows_nothing_of_what_is_too_new() -> None:
    made = cloud(faults={"listing_lag_s": 10, "gone_lag_s": 10})
    machine = create(made, "a")
    lag_s = machine.fate.listed_after_s
    assert lag_s > 0
    assert made.find(machine.id, lag_s - 0.01) is Existence.UNKNOWN
    assert made.find(machine.id, lag_s) is Existence.PRESENT
    made.destroy(machine.id, 20)
    assert made.find(machine.id, 20) is Existence.PRESENT
    while not machine.ended:
        made.run_due(made.next_due() or 20)
    assert made.find(machine.id, 25) is Existence.GONE
    story(made)
    assert made.find(machine.id, 60) is Existence.GONE, "it is forgotten, and was ours"
    assert made.find("i-sim-test-00002", 60) is Existence.UNKNOWN, "there never was one"
    assert made.find("i-sim-other-00001", 60) is Existence.UNKNOWN


def test_a_cloud_that_cannot_be_asked_knows_nothing() -> None:
    made = cloud(finds=False)
    machine = create(made, "a")
    assert made.find(machine.id, 20) is Existence.UNKNOWN
    made.end(machine, 20)
    story(made)
    assert made.find(machine.id, 60) is Existence.UNKNOWN


def test_a_question_can_fail() -> None:
    made = cloud(faults={"listing_errors": 1.0})
    with pytest.raises(CloudError):
        made.find(create(made, "a").id, 1)
