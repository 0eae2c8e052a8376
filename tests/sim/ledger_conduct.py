"""Whether the ledger is whole, and says what the simulated cloud bills."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from longshore.dispatcher.cost.money import exact_usd
from longshore.dispatcher.cost.prices import PriceBook
from longshore.dispatcher.cost.tiling import lines_of
from longshore.dispatcher.domain.containers import AttemptOutcome
from longshore.dispatcher.domain.ledger import (
    MS_PER_HOUR,
    OF_INSTANCE,
    CostLine,
    CostOutcome,
    InstanceBill,
    Interval,
    PriceSource,
    launch_id,
    ms_of,
)
from longshore.dispatcher.state.cost_recorder import NOTE_EACH_MS
from longshore.drivers.billing import BillingRule
from tests.sim.bill import billed_ms, billed_usd, life_of
from tests.sim.hosts import Host
from tests.sim.store import VirtualStore
from tests.sim.truth import expect

_LATER = 10 * 365 * 24
_OUTCOMES = {
    None: CostOutcome.OPEN,
    AttemptOutcome.SUCCEEDED: CostOutcome.USEFUL,
    AttemptOutcome.FAILED: CostOutcome.LOST_FAILED,
    AttemptOutcome.LOST: CostOutcome.LOST_LOST,
    AttemptOutcome.PREEMPTED: CostOutcome.LOST_PREEMPTED,
    AttemptOutcome.CANCELLED: CostOutcome.LOST_CANCELLED,
}


def check_facts(store: VirtualStore, *, clock_is_steady: bool) -> None:
    """Expect of what is committed that it could be reckoned from: also just after a crash.

    Where the clock is not steady over restarts, an attempt that one process lost sight of and the
    next found again may have begun before it ended.
    """
    for bill in store.bills.values():
        if bill.is_launch:
            _expect_journalled(store, bill)
    for instance_id, intervals in _by_instance(store).items():
        expect(instance_id in store.bills, "every instance has a bill", instance_id)
        states = [each for each in intervals if each.holder == OF_INSTANCE]
        _expect_tiles(store.bills[instance_id], states)
        places = [each for each in intervals if each.holder != OF_INSTANCE]
        _expect_places(store, places, steady=clock_is_steady)


def check_doubts(
    store: VirtualStore,
    hosts: Iterable[Host],
    doubted: Collection[str],
    rule: BillingRule,
    *,
    now: float,
    cloud_now: float,
) -> None:
    """Expect that what launches have made that nobody knows of is uncertain, all that is billed.

    `doubted` are the tokens of those whose answers are lost, while all that was to be written is.
    `now` is by a clock that is steady over restarts, `cloud_now` the same by the cloud's.
    """
    now_ms = round(now * 1000)
    for host in hosts:
        token = host.machine.token
        if token not in doubted:
            continue
        bill = store.bills.get(launch_id(token))
        expect(bill is not None, "a launch that nobody has answered is in the ledger", token)
        assert bill is not None
        lines = lines_of(
            bill, (), PriceBook(()), from_ms=0, until_ms=_LATER * MS_PER_HOUR, now_ms=now_ms
        )
        uncertain_ms = sum(line.uncertain_ms for line in lines)
        true_ms = billed_ms(replace(life_of(host.machine), end_asked_at=None), rule, cloud_now)
        least_ms = max(rule.unit_s, rule.minimum_s) * 1000
        all_of_it = true_ms <= uncertain_ms + least_ms
        expect(all_of_it, "what a lost answer may cost is uncertain", bill, uncertain_ms, true_ms)
        nothing = not any(line.grains for line in lines)
        expect(nothing, "nothing is booked of what likely is not there", bill)


def check_bills(
    store: VirtualStore,
    hosts: Mapping[str, Host],
    rule: BillingRule | None,
    *,
    shown_at: Mapping[str, float],
    clock_is_steady: bool,
) -> None:
    """Expect of a run that is over that its lines are all that the cloud bills, to the second.

    `rule` is how the cloud bills, None where it does not tell; `shown_at` is when each instance was
    listed last, as far as what followed was written. What is not told is compared with what was
    seen by a clock that is steady over restarts: another says nothing.
    """
    check_facts(store, clock_is_steady=clock_is_steady)
    intervals = _by_instance(store)
    for instance_id, bill in sorted(store.bills.items()):
        expect(not bill.is_launch, "in the end nobody wonders what a launch made", bill)
        lines = lines_of(
            bill,
            intervals.get(instance_id, ()),
            PriceBook(()),
            from_ms=0,
            until_ms=_LATER * MS_PER_HOUR * 100,
            now_ms=0,
        )
        expect(bill.gone_ms is not None, "every instance is gone in the ledger", instance_id)
        if clock_is_steady:
            _expect_seen(bill, shown_at.get(instance_id, 0.0))
        if rule is not None and instance_id in hosts:
            _expect_billed(bill, lines, hosts[instance_id], rule, steady=clock_is_steady)
    for attempt in store.attempts.values():
        for each in intervals.get(attempt.instance_id, ()):
            if each.holder == attempt.id:
                expected = _OUTCOMES[attempt.outcome]
                same = each.outcome is expected
                expect(same, "the ledger knows how an attempt ended", attempt.id, each.outcome)


def _expect_journalled(store: VirtualStore, bill: InstanceBill) -> None:
    """Expect of a launch in doubt that it is one: its journal is there, and it pays who bought."""
    launches = {launch_id(token): launch for token, launch in store.launches.items()}
    launch = launches.get(bill.instance_id)
    expect(launch is not None, "a launch is in doubt for as long as its journal is kept", bill)
    assert launch is not None
    same = (bill.payer.project or None, bill.payer.user or None) == (
        launch.payer.project,
        launch.payer.user,
    )
    expect(same, "an unanswered launch is who bought it's", bill, launch)


def _by_instance(store: VirtualStore) -> dict[str, list[Interval]]:
    found: dict[str, list[Interval]] = defaultdict(list)
    for (instance_id, _, _), interval in sorted(store.intervals.items(), key=lambda i: i[0][2]):
        found[instance_id].append(interval)
    return found


def _expect_tiles(bill: InstanceBill, states: list[Interval]) -> None:
    expect(bool(states), "an instance is something at each instant", bill.instance_id)
    ends = [each.until_ms for each in states]
    starts = [*(each.from_ms for each in states[1:]), bill.gone_ms]
    # It was what it was last for as long as its cloud bills it, also after it was missed.
    billed_ms = 0 if bill.billed.billed_until is None else ms_of(bill.billed.billed_until)
    # What begins and ends within one millisecond is nothing.
    expect(
        all(
            end == start or (end is not None and end < (start or 0) <= billed_ms)
            for end, start in zip(ends, starts, strict=True)
        ),
        "an instance is something at each instant",
        bill.instance_id,
        ends,
        starts,
    )


def _expect_places(store: VirtualStore, places: list[Interval], *, steady: bool) -> None:
    last: dict[str, int] = {}
    for each in places:
        before = last.get(each.holder, each.from_ms)
        expect(
            not steady or each.from_ms >= before, "an attempt has one place at a time", each.holder
        )
        expect(0 <= each.share <= 1, "a share is a part", each.holder, each.share)
        last[each.holder] = each.until_ms if each.until_ms is not None else each.from_ms
        known = store.attempts.get(each.holder)
        if known is not None:
            owner = store.containers[known.container_id]
            booked = (each.account.project, each.account.user)
            expect(
                booked == (owner.project, owner.user), "who works pays", each.holder, each.account
            )


def _expect_seen(bill: InstanceBill, shown_at: float) -> None:
    """Expect that no more is uncertain than what nobody could know: since a listing showed it.

    Or since one a little before, as not each of a quick succession is written.
    """
    known = bill.seen_ms is None or bill.seen_ms >= round(shown_at * 1000) - NOTE_EACH_MS
    expect(known, "what a listing showed is known for good", bill, shown_at)


def _expect_billed(
    bill: InstanceBill, lines: list[CostLine], host: Host, rule: BillingRule, *, steady: bool
) -> None:
    life = life_of(host.machine)
    ended_at = max(bill.gone_ms or 0, 0) / 1000
    booked_ms = sum(line.quantity_ms for line in lines)
    true_ms = billed_ms(life, rule, ended_at)
    told = bill.billed.billed_from is not None and bill.billed.billed_until is not None
    told = told and not bill.billed.from_slack_s and not bill.billed.until_slack_s
    uncertain_ms = sum(line.uncertain_ms for line in lines)
    if told:
        same = booked_ms == true_ms
        expect(same, "the ledger has what the cloud bills", bill, booked_ms, true_ms, life)
        price = host.machine.type.price_usd_per_hour
        amount = exact_usd(sum(line.grains for line in lines))
        # What is not configured (any more) has no price, which is told.
        known = all(line.price.source is not PriceSource.NONE for line in lines)
        expect(
            not known or amount == Fraction(billed_usd(life, rule, price, ended_at)),
            "the ledger has what the cloud bills",
            bill,
            amount,
        )
    elif lines and true_ms and steady:
        unit_ms = max(rule.unit_s, rule.minimum_s) * 1000
        expect(
            abs(booked_ms - true_ms) <= uncertain_ms + unit_ms,
            "what the ledger does not know is uncertain",
            bill,
            booked_ms,
            true_ms,
            uncertain_ms,
            life,
        )
