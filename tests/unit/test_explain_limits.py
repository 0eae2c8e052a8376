"""What `explain` says of limits: what is used, which one blocks, and what follows from that."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from longshore.dispatcher.domain.containers import SchedulerSettings, WaitReason
from longshore.dispatcher.explain.estimate import Situation, estimate
from longshore.dispatcher.scheduler.placement.wait_reasons import (
    PASS_FAILED,
    not_listed,
    spend_limit,
)
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type
from tests.unit.test_explain import waiting
from tests.unit.test_spend import owned, settings


def blocking(rig: Rig, container_id: str) -> list[str]:
    return [each.name for each in waiting(rig, container_id).limits if each.blocking]


def test_the_limit_that_blocks_is_told_and_no_type_is_plainly_possible() -> None:
    rig = Rig(make_type(4), settings=SchedulerSettings(max_instances=9, max_containers=1))
    rig.submit(make_container(1, cpus=1), make_container(2, cpus=1))
    rig.advance(30)
    assert blocking(rig, "c-2") == ["max_containers"]
    found = waiting(rig, "c-2")
    assert found.types[0].blocked_by == "max_containers of 1 allows none now"
    assert found.estimate.basis.startswith("another container must end first")


def test_what_is_spent_on_instances_that_are_missing_after_a_restart_is_used() -> None:
    rig = Rig(make_type(1, price="0.4"), settings=settings("0.7"))
    rig.submit(make_container(1), make_container(2))
    rig.advance(30)
    rig.crash()
    limits = {each.name: each.used for each in waiting(rig, "c-2").limits}
    assert rig.engine.scheduling.spend is not None
    assert limits["max_hourly_spend"] == float(rig.engine.scheduling.spend.total) == 0.4
    assert waiting(rig, "c-2").types[0].blocked_by == "max_hourly_spend of 0.7 allows none now"
    rig.advance(30)
    assert blocking(rig, "c-2") == ["max_hourly_spend"]


def test_what_a_project_and_a_user_spend_is_told_with_what_a_new_instance_would_add() -> None:
    configured = settings("9", {"alpha": "0.5"}, {"bob": "0.7"})
    rig = Rig(make_type(2, price="0.4"), make_type(4, price="0.6"), settings=configured)
    rig.submit(owned(1), owned(2, user="eve"))
    rig.advance(30)
    rig.submit(replace(owned(3), spec=make_container(3, cpus=2).spec))
    found = {each.name: each for each in waiting(rig, "c-3").limits}
    told = {
        name.removeprefix("max_hourly_spend"): (each.whose, each.limit, each.used, each.adds)
        for name, each in found.items()
        if name.startswith("max_hourly_spend")
    }
    assert told == {
        "": ("", 9.0, 0.4, 0.4),
        "_per_project": ("alpha", 0.5, 0.4, 0.4),
        "_per_user": ("bob", 0.7, 0.2, 0.4),
    }
    assert [name for name, each in found.items() if each.is_reached] == [
        "max_hourly_spend_per_project"
    ]
    assert blocking(rig, "c-3") == ["max_hourly_spend_per_project"]


def test_an_estimate_follows_the_reason_also_while_some_instance_is_full() -> None:
    for code, begins in (
        ("behind", "whatever is next in line"),
        ("supervisors", "another supervisor"),
        ("spend_limit", "something that is paid for"),
        ("creating", "room comes free first, or a new instance must be created"),
        ("", "what would do is full"),
    ):
        reason = WaitReason(code=code, message="") if code else None
        found = estimate(Situation(reason=reason, boots=None, may_free_up=True))
        assert found.basis.startswith(begins), code


def test_an_estimate_says_what_must_come_before_anything_is_placed() -> None:
    for reason, begins in (
        (not_listed("no route"), "the cloud must first tell which instances there are"),
        (PASS_FAILED, "a planning pass must succeed first"),
    ):
        found = estimate(Situation(reason=reason, boots=None))
        assert (found.earliest_s, found.latest_s) == (None, None)
        assert found.basis.startswith(begins)


def test_what_a_limit_can_never_allow_starts_never() -> None:
    reason = spend_limit(
        "the cluster",
        "max_hourly_spend",
        limit=Decimal(1),
        spent=Decimal(0),
        price=Decimal(2),
        is_final=True,
        room_on="",
    )
    assert reason.message == (
        "the cluster may spend $1.00/h (max_hourly_spend), and the cheapest instance that would do"
        " costs $2.00/h: that can never be, while the limit is what it is"
    )
    found = estimate(Situation(reason=reason, boots=None, may_free_up=True))
    assert (found.earliest_s, found.basis) == (None, "never, while the limit is what it is")
