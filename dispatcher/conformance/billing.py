"""Checks of what a driver tells of billing: its rule, and of one instance from when until when.

Stands alone: billing has an interface of its own, `drivers.billing`, and only some drivers have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from longshore.dispatcher.conformance.harness import Bench, Subject
from longshore.dispatcher.conformance.model import Nonconformity, NotShown
from longshore.drivers.billing import (
    Billed,
    BillingEnd,
    BillingRule,
    BillingStart,
    Bills,
    EndedBy,
    TellsBilling,
)

CLOCKS_DIFFER_S = 120.0
"""How far the cloud's clock and this machine's may be apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """When a call was made and when it had returned, on this machine's clock."""

    began_at: float
    ended_at: float


def check_rule(bench: Bench) -> str:
    """It tells how the cloud bills, the same each time, in units and minimums that can be."""
    driver = _bills(bench)
    rule, again = driver.billing_rule(), driver.billing_rule()
    if rule != again:
        raise Nonconformity("it tells another rule the second time", "tell what the cloud says")
    amount = rule.minimum_amount_usd
    least_s = min(rule.minimum_s, rule.free_if_reclaimed_within_s)
    if rule.unit_s < 1 or least_s < 0 or not amount.is_finite() or amount < 0:
        raise Nonconformity(
            f"its rule is none: {rule}", "tell units of a second at least, and nothing below 0"
        )
    return f"{rule.starts.value} to {rule.ends.value}, by {rule.unit_s} s"


def check_times(bench: Bench) -> str:
    """It tells when the billing of an instance began, and once it is gone when that ended."""
    driver = _bills(bench)
    rule = driver.billing_rule()
    asked_at = bench.trial.epoch_now()
    with bench.own() as subject:
        created = _Call(began_at=asked_at, ended_at=bench.trial.epoch_now())
        begun = _await_begun(bench, subject)
        _expect_begun(bench, rule, begun, created)
        _expect_steady(begun, _await_begun(bench, subject), "the next listing")
        _expect_steady(begun, _await_bill(bench, driver, subject, lambda _: True), "`bills`")
        _expect_no_strangers(bench, driver, subject)
        destroyed = _destroy(bench, subject)
        over = _await_bill(bench, driver, subject, lambda bill: bill.billed_until is not None)
        _expect_steady(begun, over, "`bills`, once it has ended,")
        _expect_ended(bench, rule, over, destroyed)
    return f"zone {over.zone}" if over.zone else ""


def _bills(bench: Bench) -> Bills:
    if not isinstance(bench.set, Bills):
        raise NotShown("it tells nothing of billing, see capabilities")
    return bench.set


def _await_begun(bench: Bench, subject: Subject) -> Billed:
    """Return what a listing tells of an instance whose billing has begun."""

    def look() -> Billed | None:
        listed = bench.listed(subject.id)
        if listed is None:
            return None
        if not isinstance(listed, TellsBilling):
            raise Nonconformity(
                f"{subject.id} tells nothing of its billing in a listing",
                "give instances the property `billed`",
            )
        return listed.billed if listed.billed.billed_from is not None else None

    return bench.until(
        look,
        bench.patience.boot_timeout_s,
        f"no listing tells when the billing of {subject.id} began",
        "tell `billed_from` of each instance whose billing has begun",
    )


def _await_bill(
    bench: Bench, driver: Bills, subject: Subject, is_it: Callable[[Billed], bool]
) -> Billed:
    """Return what `bills` tells of an instance once it tells what is waited for."""

    def look() -> Billed | None:
        told = driver.bills([subject.id]).get(subject.id)
        return told if told is not None and is_it(told) else None

    return bench.until(
        look,
        bench.patience.gone_timeout_s,
        f"`bills` does not tell of {subject.id}, or not when its billing ended,",
        "ask the cloud by the id, and answer for what has ended too",
    )


def _destroy(bench: Bench, subject: Subject) -> _Call:
    began_at = bench.trial.epoch_now()
    bench.patiently(subject.instance.destroy)
    ended_at = bench.trial.epoch_now()
    bench.await_gone(subject.id)
    return _Call(began_at=began_at, ended_at=ended_at)


def _expect_begun(bench: Bench, rule: BillingRule, begun: Billed, created: _Call) -> None:
    if begun.billed_until is not None or begun.ended_by is not None:
        raise Nonconformity(
            "it tells an end of the billing of an instance that runs",
            "leave out `billed_until` and `ended_by` until the billing has ended",
        )
    latest = bench.trial.epoch_now()
    if rule.starts is BillingStart.REQUESTED:
        latest = created.ended_at
    _expect_between("began", begun.billed_from, created.began_at, latest)


def _expect_ended(bench: Bench, rule: BillingRule, over: Billed, destroyed: _Call) -> None:
    begun, ended = over.billed_from, over.billed_until
    if begun is None or ended is None or ended < begun:
        raise Nonconformity(
            f"its billing ended at {ended} and began at {begun}", "tell no end before the beginning"
        )
    latest = bench.trial.epoch_now()
    if rule.ends is BillingEnd.SHUTTING_DOWN:
        latest = destroyed.ended_at
    _expect_between("ended", ended, destroyed.began_at, latest)
    if over.ended_by not in (None, EndedBy.REQUEST):
        raise Nonconformity(
            f"it says that the end of what was destroyed was {over.ended_by.value}",
            "tell who ended an instance by the cloud's word, or leave that out",
        )


def _expect_between(what: str, told: float | None, earliest: float, latest: float) -> None:
    if told is not None and earliest - CLOCKS_DIFFER_S <= told <= latest + CLOCKS_DIFFER_S:
        return
    raise Nonconformity(
        f"its billing {what} at {told}, and by its rule that was from {earliest} to {latest}",
        "tell seconds since the epoch, by the rule, once the time has come",
    )


def _expect_steady(before: Billed, now: Billed, where: str) -> None:
    if (before.billed_from, before.zone) != (now.billed_from, now.zone):
        raise Nonconformity(
            f"{where} tells {now.billed_from} and zone {now.zone!r}, and it was "
            f"{before.billed_from} and {before.zone!r} before",
            "tell what the cloud has on record, not what it is now",
        )


def _expect_no_strangers(bench: Bench, driver: Bills, subject: Subject) -> None:
    never = subject.id[:-3] + ("fed" if subject.id[-3:] != "fed" else "bad")
    told = bench.patiently(lambda: driver.bills([subject.id, never]))
    if never in told or subject.id not in told:
        raise Nonconformity(
            f"asked of {subject.id} and of {never}, which there never was, it tells of "
            f"{', '.join(sorted(told)) or 'none'}",
            "leave out what the cloud does not know, and tell of the rest",
        )
