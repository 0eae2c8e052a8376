"""What a cloud bills before an instance was seen, and after it was missed, is in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from longshore.dispatcher.domain.ledger import (
    GROUP_FIELDS,
    MS_PER_HOUR,
    OF_INSTANCE,
    BilledState,
    InstanceBill,
)
from longshore.dispatcher.domain.messages import Change, SaveBill, SaveInterval
from longshore.dispatcher.service.costs import CostService
from longshore.dispatcher.state.cost_recorder import MOST_ENDED
from longshore.drivers.billing import Billed
from longshore.pool.messages import Probe
from longshore.pool.model import PoolSettings
from tests.ledger_facts import BILL
from tests.rigs.engine import Rig
from tests.rigs.services import store_in
from tests.samples import make_type

H: Final = MS_PER_HOUR
T0: Final = 480_648


def seen_late(hours: int) -> tuple[Rig, str]:
    """Return a rig with an instance that is billed since T0, and was seen so many hours later."""
    rig = Rig(make_type(1), pool=PoolSettings(idle_timeout_s=1_000_000))
    rig.now = (T0 + hours) * 3600.0
    id_ = rig.boot("t1")
    rig.cloud[id_] = replace(rig.cloud[id_], billed=Billed(billed_from=T0 * 3600.0))
    rig.crash()
    assert rig.bills[id_].running_ms == (T0 + hours) * H
    return rig, id_


def lost(rig: Rig, id_: str) -> InstanceBill:
    """Let the instance be gone, by its listings; return its bill."""
    del rig.cloud[id_]
    rig.silent.add(Probe)
    rig.crash()
    rig.advance(1200)
    bill = rig.bills[id_]
    assert bill.gone_ms is not None
    return bill


def hours_booked(
    directory: Path, changes: Iterable[Change], *later: Change
) -> dict[int, dict[BilledState, int]]:
    """Return what is booked of each hour by state, in milliseconds; `later` comes once it was."""
    hours = range(T0 - 1, T0 + 48)
    with store_in(directory) as store:
        service = CostService(
            store=store, now=lambda: (T0 + 48) * 3600.0, labels=(), currency="USD"
        )

        async def book() -> None:
            while await service.book():
                pass

        # Something that was booked before, so that the first hour is none of these.
        old = replace(BILL, instance_id="i-old", created_ms=(T0 - 40) * H, gone_ms=(T0 - 39) * H)
        store.write([SaveBill(bill=replace(old, billed=Billed()))]).result(30)
        store.write(list(changes)).result(30)
        asyncio.run(book())
        for change in later:
            store.write([change]).result(30)
            asyncio.run(book())
        found = store.ledger.sums([(hour, hour + 1) for hour in hours], GROUP_FIELDS).totals
    booked: dict[int, dict[BilledState, int]] = {}
    for hour, totals in zip(hours, found, strict=True):
        for group, total in totals.items():
            by_state = booked.setdefault(hour - T0, {})
            by_state[group.state] = by_state.get(group.state, 0) + total.quantity_ms
    return booked


def facts(rig: Rig, bill: InstanceBill) -> list[Change]:
    intervals = (SaveInterval(interval=each) for each in rig.intervals.values())
    return [SaveBill(bill=bill), *intervals]


def test_an_instance_is_booked_from_when_it_is_billed_though_it_is_seen_much_later(
    tmp_path: Path,
) -> None:
    rig, id_ = seen_late(5)
    rig.advance(3600)
    bill = lost(rig, id_)
    told = replace(bill.billed, billed_until=bill.gone_ms and bill.gone_ms / 1000)
    (ended,) = rig.engine.costs.billed(id_, told, final=True)
    assert isinstance(ended, SaveBill)
    booked = hours_booked(tmp_path, facts(rig, ended.bill))
    first = next(each for each in rig.intervals.values() if each.holder == OF_INSTANCE)
    assert [booked[hour] for hour in range(5)] == [{first.state: H}] * 5, "what it was first"
    assert sum(sum(each.values()) for each in booked.values()) == (bill.gone_ms or 0) - T0 * H


def test_an_instance_is_booked_as_long_as_it_is_billed_though_it_was_missed_much_earlier(
    tmp_path: Path,
) -> None:
    rig, id_ = seen_late(0)
    bill = lost(rig, id_)
    told = replace(bill.billed, billed_until=(T0 + 7) * 3600.0)
    (ended,) = rig.engine.costs.billed(id_, told, final=True)
    booked = hours_booked(tmp_path, facts(rig, bill), ended)
    assert sorted(booked) == list(range(7))
    last = max(rig.intervals.values(), key=lambda each: each.from_ms)
    assert booked[6] == {last.state: H}, "what it was last"
    assert sum(sum(each.values()) for each in booked.values()) == 7 * H


def test_one_that_comes_back_after_such_a_word_is_written_without_a_gap() -> None:
    rig, id_ = seen_late(0)
    seen = rig.cloud[id_]
    lost(rig, id_)
    told = Billed(billed_from=T0 * 3600.0, billed_until=(T0 + 7) * 3600.0)
    rig.engine.costs.billed(id_, told, final=False)
    rig.silent.clear()
    rig.cloud[id_] = seen
    rig.advance(1200)
    (open_,) = [each for each in rig.intervals.values() if each.until_ms is None]
    assert open_.from_ms <= rig.now * 1000
    rig.engine.check()


def test_a_late_word_is_taken_in_of_however_many_that_are_gone() -> None:
    rig, id_ = seen_late(0)
    costs = rig.engine.costs
    gone = [replace(BILL, instance_id=f"i-{n:05}", gone_ms=T0 * H) for n in range(MOST_ENDED + 1)]
    costs.restore((replace(each, final=False) for each in gone), (), listed_ms=0)
    costs.gone(id_, seen_at=rig.now, now=rig.now)
    told = Billed(billed_until=T0 * 3600.0)
    assert all(costs.billed(each.instance_id, told, final=True) for each in gone)
    assert costs.bill_of(gone[0].instance_id) is None, "of what is settled the latest are kept"
    assert costs.bill_of(gone[1].instance_id) is not None
    assert costs.bill_of(id_) is not None, "its bill is not final yet"
