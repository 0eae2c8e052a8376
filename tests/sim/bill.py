"""What the cloud bills for each machine, reckoned from its own record of it and its rule's text.

It knows nothing of what drivers are told, and shares no code with the ledger, so that the two can
be compared. Times are read in whole milliseconds, since that is what is billed by.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from longshore.drivers.billing import BillingEnd, BillingRule, BillingStart
from longshore.drivers.simulated.model import Machine
from tests.sim.hosts import Host

MS = 1000
MS_PER_HOUR = 3600 * MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One machine as the cloud has it on record; times on the cloud's clock, None for not yet."""

    asked_at: float
    #: When it runs, if nothing ends it before.
    runs_from: float
    end_asked_at: float | None = None
    ended_at: float | None = None
    reclaimed: bool = False
    preemptible: bool = False


def life_of(machine: Machine) -> Life:
    """Return what the cloud has on record of a machine."""
    fate = machine.fate
    taken_at = None if fate.ends_after_s is None else machine.created_at + fate.ends_after_s
    taken = fate.reclaimed and machine.ended and machine.ended_at == taken_at
    return Life(
        asked_at=machine.created_at,
        runs_from=machine.runs_from,
        end_asked_at=machine.ending_from if machine.ending else None,
        ended_at=machine.ended_at if machine.ended else None,
        reclaimed=taken and not machine.ending,
        preemptible=machine.type.preemptible,
    )


def billed_span(life: Life, rule: BillingRule, now: float) -> tuple[float, float] | None:
    """Return from when until when a machine is billed, as far as `now`; None for not at all."""
    ends = [each for each in (life.end_asked_at, life.ended_at) if each is not None]
    stops_at = min(ends, default=now)
    if rule.starts is BillingStart.REQUESTED:
        starts_at = life.asked_at
    elif stops_at <= life.runs_from:
        return None  # it never ran
    else:
        starts_at = life.runs_from
    if rule.ends is BillingEnd.TERMINATED:
        stops_at = now if life.ended_at is None else life.ended_at
    return starts_at, stops_at


def billed_ms(life: Life, rule: BillingRule, now: float) -> int:
    """Return for how long a machine is billed.

    Units and minimum are those of a billing that has ended: until then it is the time so far.
    """
    span = billed_span(life, rule, now)
    if span is None:
        return 0
    lasted = round(span[1] * MS) - round(span[0] * MS)
    if not lasted or not _is_over(life, rule):
        return lasted
    if life.reclaimed and life.preemptible and lasted < rule.free_if_reclaimed_within_s * MS:
        return 0
    units = -(-lasted // (rule.unit_s * MS))
    return max(units * rule.unit_s, rule.minimum_s) * MS


def billed_usd(life: Life, rule: BillingRule, price_usd_per_hour: Decimal, now: float) -> Fraction:
    """Return what that costs: of a billing that has ended, at least the least amount."""
    lasted = billed_ms(life, rule, now)
    amount = Fraction(price_usd_per_hour) * lasted / MS_PER_HOUR
    if lasted and _is_over(life, rule):
        return max(amount, Fraction(rule.minimum_amount_usd))
    return amount


def all_billed_ms(hosts: Iterable[Host], rule: BillingRule, now: float) -> dict[str, int]:
    """Return for how long each machine that ever was is billed, by its id."""
    return {h.machine.id: billed_ms(life_of(h.machine), rule, now) for h in hosts}


def _is_over(life: Life, rule: BillingRule) -> bool:
    if rule.ends is BillingEnd.TERMINATED:
        return life.ended_at is not None
    return life.end_asked_at is not None or life.ended_at is not None
