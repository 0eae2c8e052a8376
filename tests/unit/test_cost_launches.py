"""A create call whose answer is lost: what it may cost is uncertain until a listing settles it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from longshore.dispatcher.cost.dirty import hours_changed
from longshore.dispatcher.cost.focus import FocusVersion, focus_rows
from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.rollups import group_of
from longshore.dispatcher.cost.spans import billed_span
from longshore.dispatcher.cost.tiling import UNANSWERED, lines_of
from longshore.dispatcher.domain.ledger import (
    GROUP_FIELDS,
    MS_PER_HOUR,
    Account,
    BilledState,
    Column,
    CostLine,
    InstanceBill,
    launch_id,
    ms_of,
)
from longshore.dispatcher.domain.messages import DropBill, SaveBill
from longshore.dispatcher.service.costs import CostService
from longshore.dispatcher.store.store import Store
from longshore.drivers.billing import AS_USED, BillingRule, BillingStart
from longshore.drivers.errors import AmbiguousResult
from longshore.drivers.interface import TOKEN_TAG
from longshore.pool.messages import CreateFailed, CreateInstance
from longshore.pool.model import PoolSettings
from tests.cost_samples import CONTEXT
from tests.rigs.engine import Rig, last_commands
from tests.rigs.services import store_in
from tests.samples import make_container, make_type

H: Final = MS_PER_HOUR
T0: Final = 480_648
NUSD: Final = 100_000_000


def lost() -> tuple[Rig, CreateInstance]:
    """Return a rig whose one create call is not answered, though it took too long to be."""
    rig = Rig(make_type(1), pool=PoolSettings(boot_timeout_s=600))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    (create,) = last_commands(rig, CreateInstance)
    assert rig.bills == {}, "its answer is not lost yet"
    error = AmbiguousResult("time-out")
    rig.now += 20
    rig.send(CreateFailed(op_id=create.op_id, token=create.launch.token, error=error))
    return rig, create


def lines(bill: InstanceBill, now_ms: int) -> list[CostLine]:
    return lines_of(bill, (), PriceBook(()), from_ms=0, until_ms=10**6 * H, now_ms=now_ms)


def launch_bill(**changes: object) -> InstanceBill:
    bill = InstanceBill(
        instance_id=launch_id("token-1"),
        type_name="small",
        provider_type="s1",
        preemptible=False,
        nusd_per_hour=NUSD,
        payer=Account(project="p", user="alice", job_name="align"),
        created_ms=T0 * H + H // 2,
        rule=AS_USED,
    )
    return replace(bill, **changes)  # type: ignore[arg-type]  # fields by name


# ---- what is written -----------------------------------------------------------------------------


def test_a_launch_without_an_answer_is_uncertain_since_its_call_and_nothing_is_booked() -> None:
    rig, create = lost()
    rig.advance(30)
    (bill,) = rig.bills.values()
    assert (bill.is_launch, bill.instance_id) == (True, f"launch {create.launch.token}")
    assert bill.payer.user == make_container(1).user
    assert bill.created_ms == ms_of(create.launch.created_at)
    (line,) = lines(bill, ms_of(rig.now))
    assert (line.quantity_ms, line.grains, line.uncertain_ms) == (0, 0, 50_000)
    assert (line.state, line.column, line.cause) == (
        BilledState.PENDING,
        Column.CAUSED,
        UNANSWERED,
    )


def test_once_a_listing_shows_its_instance_the_time_is_that_instances() -> None:
    rig, create = lost()
    rig.advance(5)
    rig.boot("t1", longshore_token=create.launch.token)
    rig.advance(10)
    (bill,) = rig.bills.values()
    assert not bill.is_launch
    assert bill.created_ms == ms_of(create.launch.created_at)
    assert bill.payer.user == make_container(1).user
    assert lines(bill, ms_of(rig.now))[0].uncertain_ms > 0, "it may run since its call"


def test_an_instance_whose_tags_are_listed_late_has_the_time_since_its_call() -> None:
    rig, create = lost()
    rig.boot("t1")
    rig.advance(3)
    assert rig.bills["i-001"].payer.user == "", "nobody knows yet of which launch it is"
    tags = (*rig.cloud["i-001"].tags, (TOKEN_TAG, create.launch.token))
    rig.cloud["i-001"] = replace(rig.cloud["i-001"], tags=tags)
    rig.advance(70)
    (bill,) = rig.bills.values()
    assert (bill.instance_id, bill.created_ms) == ("i-001", ms_of(create.launch.created_at))
    assert bill.payer.user == make_container(1).user


def test_once_it_is_settled_that_there_is_none_it_is_taken_back() -> None:
    rig, _ = lost()
    rig.silent.clear()
    rig.cancel("c-1")
    rig.advance(599)
    assert [bill.is_launch for bill in rig.bills.values()] == [True]
    rig.advance(60)
    assert rig.bills == {}


def test_a_server_that_ends_before_the_answer_leaves_the_doubt_to_the_next_one() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    (create,) = last_commands(rig, CreateInstance)
    for _ in range(2):
        rig.now += 3600
        rig.crash()
        (bill,) = rig.bills.values()
        assert bill.is_launch
        assert bill.created_ms == ms_of(create.launch.created_at), "also while no server ran"
    rig.boot("t1", longshore_token=create.launch.token)
    rig.advance(10)
    assert [each.is_launch for each in rig.bills.values()] == [False]


def test_an_instance_that_is_known_is_no_doubt_while_a_restart_waits_for_its_listing() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1))
    (create,) = last_commands(rig, CreateInstance)
    rig.unreachable = {"i-001"}
    rig.boot("t1", longshore_token=create.launch.token)
    rig.crash()
    assert list(rig.bills) == list(rig.cloud)
    assert rig.launches, "its key is not proven"
    rig.crash(listed=False)
    assert list(rig.bills) == list(rig.cloud)


# ---- what is reckoned ----------------------------------------------------------------------------


@pytest.mark.parametrize("starts", BillingStart)
def test_nothing_of_a_launch_is_billed_likely_whatever_the_rule(starts: BillingStart) -> None:
    rule = BillingRule(starts=starts, minimum_s=60)
    bill = launch_bill(rule=rule)
    assert billed_span(bill, now_ms=(T0 + 9) * H) is None
    found = lines(bill, (T0 + 2) * H)
    assert [(each.hour, each.quantity_ms, each.uncertain_ms) for each in found] == [
        (T0, 0, H // 2),
        (T0 + 1, 0, H),
    ]
    assert lines(bill, bill.created_ms - 5) == [], "a clock that was set back"


def test_all_hours_up_to_the_last_booked_one_change_with_what_goes_on() -> None:
    bill = launch_bill()
    assert list(hours_changed(None, bill, booked_until=T0 + 3)) == [T0, T0 + 1, T0 + 2]
    assert list(hours_changed(None, bill, booked_until=0)) == [T0]
    gone = replace(bill, instance_id="i-1", running_ms=bill.created_ms, used_ms=bill.created_ms)
    gone = replace(gone, seen_ms=(T0 + 1) * H, gone_ms=(T0 + 1) * H)
    back = replace(gone, seen_ms=None, gone_ms=None)
    assert hours_changed(gone, back, booked_until=T0 + 9).stop == T0 + 9, "there all the time"
    ending = replace(back, unwanted_ms=(T0 + 5) * H)
    assert len(hours_changed(back, ending, booked_until=T0 + 9)) <= 2


def test_what_may_never_have_been_is_in_no_focus_file() -> None:
    found = lines(launch_bill(), (T0 + 2) * H)
    assert found
    assert list(focus_rows(found, FocusVersion.V1_4, CONTEXT)) == []


# ---- what is booked ------------------------------------------------------------------------------


def uncertain_grains(store: Store, hour: int) -> int:
    """Return how much is uncertain of what is booked of an hour."""
    (totals,) = store.ledger.sums([(hour, hour + 1)], GROUP_FIELDS).totals
    return sum(total.uncertain_grains for total in totals.values())


def test_what_was_booked_as_uncertain_is_taken_back_with_it(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:

        def book() -> None:
            costs = CostService(
                store=store, now=lambda: (T0 + 3.5) * 3600.0, labels=(), currency="USD"
            )

            async def all_of_it() -> None:
                while await costs.book():
                    pass

            asyncio.run(all_of_it())

        other = launch_bill(instance_id="i-1", running_ms=T0 * H, gone_ms=T0 * H, final=True)
        store.write([SaveBill(bill=replace(other, created_ms=T0 * H))]).result(30)
        book()
        assert store.ledger.due(before_hour=T0 + 3, at_most=9).hours == {}
        store.write([SaveBill(bill=launch_bill())]).result(30)
        assert sorted(store.ledger.due(before_hour=T0 + 3, at_most=9).hours) == [T0, T0 + 1, T0 + 2]
        book()
        assert [uncertain_grains(store, T0 + n) for n in range(3)] == [
            H // 2 * NUSD,
            *[H * NUSD] * 2,
        ]
        (group,) = {group_of(line, ()) for line in lines(launch_bill(), (T0 + 1) * H)}
        assert (group.user, group.cause) == ("alice", UNANSWERED)
        store.write([DropBill(launch_id=launch_id("token-1"))]).result(30)
        book()
        assert [uncertain_grains(store, T0 + n) for n in range(3)] == [0, 0, 0]
        assert [each.instance_id for each in store.ledger.facts(T0, T0 + 9).bills] == ["i-1"]
        store.write([DropBill(launch_id=launch_id("token-1"))]).result(30)
        assert store.ledger.due(before_hour=T0 + 3, at_most=9).hours == {}
