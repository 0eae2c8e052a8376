"""What is written of instances and attempts while things happen."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest

from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.tiling import lines_of
from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    OF_INSTANCE,
    BilledState,
    CostLine,
    CostOutcome,
    Interval,
)
from longshore.dispatcher.domain.messages import BehaviorRequested, NoteListing
from longshore.dispatcher.state.cost_recorder import DAEMON, NOTE_EACH_MS
from longshore.drivers.interface import Resources
from longshore.pool.messages import FindInstance, Probe
from longshore.pool.model import BehaviorNote, IdleBehavior, PoolSettings
from tests.rigs.engine import Rig
from tests.rigs.per_instance_jobs import DaemonRig, daemon
from tests.samples import GIB, make_container, make_type


def told(rig: Rig, holder: str = OF_INSTANCE) -> list[Interval]:
    kept = rig.intervals.values()
    return sorted((i for i in kept if i.holder == holder), key=lambda each: each.from_ms)


def states(rig: Rig) -> list[str]:
    return [each.state.value for each in told(rig)]


def asking(number: int, resources: Resources) -> Container:
    container = make_container(number)
    return replace(container, spec=replace(container.spec, resources=resources))


def lines(rig: Rig, instance_id: str = "i-001") -> list[CostLine]:
    seen = [i for i in rig.intervals.values() if i.instance_id == instance_id]
    bill = rig.bills[instance_id]
    now_ms = round(rig.now * 1000)
    return lines_of(
        bill, seen, PriceBook(()), from_ms=0, until_ms=2**50 * MS_PER_HOUR, now_ms=now_ms
    )


def test_an_instance_is_booting_then_has_work_and_room_is_empty_and_unwanted() -> None:
    rig = Rig(make_type(2))
    rig.submit(make_container(1))
    rig.advance(10)
    rig.exit("c-1-1")
    rig.advance(600)
    assert states(rig) == ["room", "empty", "unwanted"], "it boots in no time"
    bill = rig.bills["i-001"]
    assert bill.payer.project == make_container(1).project
    assert bill.payer.job_name == "n1"
    assert None not in (bill.running_ms, bill.ready_ms, bill.used_ms, bill.unwanted_ms)
    assert bill.gone_ms is not None
    ends = [each.until_ms for each in told(rig)]
    assert ends == [*(each.from_ms for each in told(rig)[1:]), bill.gone_ms]


def test_an_attempt_has_its_place_from_when_it_gets_it_to_its_end_and_its_outcome() -> None:
    rig = Rig(make_type(4))
    rig.submit(make_container(1))
    placed_at = rig.now
    rig.advance(100)
    rig.exit("c-1-1", code=3)
    (mine,) = told(rig, "c-1-1")
    assert mine.from_ms == round(placed_at * 1000)
    assert mine.until_ms == round(rig.now * 1000)
    assert mine.outcome is CostOutcome.LOST_FAILED
    assert mine.share == Fraction(1, 4)
    assert (mine.account.container_id, mine.account.job_name) == ("c-1", "n1")


def test_shares_of_more_than_an_instance_are_divided_by_their_sum() -> None:
    """0.9 of the cpus and 0.875 of the memory are not 1.775 instances."""
    rig = Rig(make_type(10))
    wide = Resources(cpu_millis=9000, memory_bytes=GIB)
    deep = Resources(cpu_millis=1000, memory_bytes=10 * GIB)
    rig.submit(asking(1, wide), asking(2, deep))
    assert list(rig.bills) == ["i-001"]
    start = rig.now
    rig.advance(1800)
    rig.exit("c-1-1")
    rig.exit("c-2-1")
    cost = {c: rig.containers[c].cost_usd for c in ("c-1", "c-2")}
    whole = rig.types[next(iter(rig.types))].price_usd_per_hour * Decimal(rig.now - start) / 3600
    assert abs(sum(cost.values()) - whole) < Decimal("1e-6")
    work = sum(line.quantity_ms for line in lines(rig) if line.state is BilledState.WORK)
    assert work == round((rig.now - start) * 1000)


def test_what_belongs_to_instances_is_shared_and_its_owners() -> None:
    rig = DaemonRig(make_type(1))
    rig.join()
    rig.submit_daemon(daemon())
    daemons = [i for i in rig.intervals.values() if i.cause == DAEMON]
    assert daemons
    assert {i.account.project for i in daemons} != {""}


def test_a_hold_is_told_with_who_asked_for_it() -> None:
    rig = Rig(make_type(2))
    rig.submit(make_container(1))
    note = BehaviorNote(behavior=IdleBehavior.HOLD, reason="disk noises", by="root", at=rig.now)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD, note=note))
    rig.exit("c-1-1")
    last = told(rig)[-1]
    assert (last.state, last.account.user) == (BilledState.HELD, "root")


def test_a_process_that_starts_again_goes_on_where_the_last_one_ended() -> None:
    rig = Rig(make_type(2))
    rig.submit(make_container(1))
    began = told(rig, "c-1-1")[0].from_ms
    rig.advance(50)
    rig.crash()
    rig.advance(50)
    rig.exit("c-1-1")
    (mine,) = told(rig, "c-1-1")
    assert mine.from_ms == began
    assert mine.until_ms == round(rig.now * 1000)
    cost = rig.containers["c-1"].cost_usd
    expected = sum(line.grains for line in lines(rig) if line.attempt_id)
    assert abs(cost - Decimal(expected) / 36 / 10**14) < Decimal("1e-9")


def test_a_process_that_never_heard_of_an_instance_has_not_seen_it() -> None:
    """Seed 1149 of the simulation: that it began itself was taken for a sign of life."""
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=100_000))
    rig.submit(make_container(1))
    rig.advance(100)
    rig.exit("c-1-1")
    (*_, empty) = told(rig)
    assert empty.state is BilledState.EMPTY
    del rig.cloud["i-001"]
    rig.now += 3000
    rig.crash()
    rig.advance(2000)
    bill = rig.bills["i-001"]
    assert bill.gone_ms is not None
    assert bill.seen_ms is not None
    assert bill.seen_ms <= empty.from_ms
    uncertain_ms = sum(line.uncertain_ms for line in lines(rig))
    assert uncertain_ms >= 3_000_000, "it may have ended at any time since"


@pytest.mark.parametrize("starts", [1, 2])
def test_what_ends_while_no_server_runs_was_there_at_the_last_listing(starts: int) -> None:
    """An attempt of ten hours ended its billing at its own beginning, from booked hours too."""
    rig = Rig(make_type(1), pool=PoolSettings(gone_after_s=60))
    rig.submit(make_container(1))
    rig.advance(36_000)
    worked_until = rig.now
    del rig.cloud["i-001"]
    rig.now += 3000
    for _ in range(starts):
        rig.crash()
        rig.advance(20)
    rig.advance(2000)
    bill = rig.bills["i-001"]
    assert bill.gone_ms is not None
    assert bill.seen_ms is not None
    known_s = worked_until - bill.seen_ms / 1000
    assert 0 <= known_s <= rig.pool_settings.sync_interval_s + 1
    work = sum(line.quantity_ms for line in lines(rig) if line.state is BilledState.WORK)
    assert work >= 35_900_000, "ten hours of work are there"
    uncertain_ms = sum(line.uncertain_ms for line in lines(rig))
    assert 3_000_000 <= uncertain_ms <= 5_200_000


def test_what_listings_lack_is_known_until_it_was_heard_of_and_forgotten_once_it_is_back() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(gone_after_s=6000, idle_timeout_s=100_000))
    rig.submit(make_container(1))
    rig.advance(100)
    shown = rig.bills["i-001"]
    assert shown.seen_ms is None
    assert rig.listed_ms > 1_000_000
    hidden = rig.cloud.pop("i-001")
    rig.crash()
    lacked = rig.bills["i-001"].seen_ms
    assert lacked is not None
    rig.cloud["i-001"] = hidden
    rig.advance(15)
    assert rig.bills["i-001"].seen_ms is None


def test_without_an_instance_no_listing_is_written() -> None:
    rig = Rig(make_type(1))
    rig.advance(1000)
    assert rig.listed_ms == 0


def test_an_instance_that_never_was_of_use_is_caused_by_whom_it_was_bought_for() -> None:
    rig = Rig(make_type(2))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.advance(3600)
    booked = [line for line in lines(rig) if line.quantity_ms]
    assert {line.outcome for line in booked} <= {CostOutcome.FAILED_BOOT}
    assert {line.account.user for line in booked} == {make_container(1).user}


def test_of_listings_in_quick_succession_few_are_written() -> None:
    """A cloud is listed again and again while instances end: the store has other things to do."""
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=100_000))
    rig.submit(make_container(1))
    rig.advance(100)
    written = rig.listed_ms
    (worker,) = rig.engine.pool.workers.values()
    at = rig.engine.pool.listed_at + (NOTE_EACH_MS - 1) / 1000
    rig.engine.pool.listed_at = worker.cloud.listed_at = at
    assert rig.engine.costs.record(rig.now) == []
    rig.engine.pool.listed_at = worker.cloud.listed_at = at + 0.001
    assert rig.engine.costs.record(rig.now) == [NoteListing(at_ms=written + NOTE_EACH_MS)]


def test_who_is_lacked_by_listings_was_not_shown_by_them() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(gone_after_s=6000, idle_timeout_s=100_000))
    rig.silent |= {FindInstance, Probe}
    rig.submit(make_container(1))
    rig.advance(100)
    rig.cloud.pop("i-001")
    shown_ms = rig.listed_ms
    rig.advance(300)
    assert rig.listed_ms > shown_ms
    seen_ms = rig.bills["i-001"].seen_ms
    assert seen_ms is not None
    assert seen_ms < rig.listed_ms
