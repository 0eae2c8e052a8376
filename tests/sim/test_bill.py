"""What the simulated cloud bills, by tables; and that the pool is told just that in the end."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest

from longshore.drivers.billing import BillingEnd, BillingRule, BillingStart
from longshore.drivers.simulated.parameters import SimulatedBilling
from tests.rigs.simulated import SPOT, cloud, create, story
from tests.sim.bill import Life, all_billed_ms, billed_ms, billed_usd, life_of
from tests.sim.options import SimOptions, options_of
from tests.sim.world import World

NOW = 10_000.0
RUNNING = BillingRule()
REQUESTED = replace(RUNNING, starts=BillingStart.REQUESTED)
TO_THE_END = replace(RUNNING, ends=BillingEnd.TERMINATED)
ALL_OF_IT = replace(REQUESTED, ends=BillingEnd.TERMINATED)
EC2 = BillingRule(minimum_s=60, free_if_reclaimed_within_s=3600)
HOURS = BillingRule(unit_s=3600)

#: Asked for at 100, runs from 105.
NEW = Life(asked_at=100.0, runs_from=105.0)
ENDED = replace(NEW, end_asked_at=150.0, ended_at=160.25)
ENDING = replace(NEW, end_asked_at=150.0)
BY_ITSELF = replace(NEW, ended_at=160.25)
TOO_EARLY = replace(NEW, end_asked_at=103.0, ended_at=113.0)
LOST_EARLY = replace(NEW, ended_at=103.0)
RECLAIMED = replace(NEW, ended_at=3704.0, reclaimed=True, preemptible=True)


@pytest.mark.parametrize(
    ("life", "rule", "seconds"),
    [
        (ENDED, RUNNING, 45),
        (ENDED, REQUESTED, 50),
        (ENDED, TO_THE_END, 56),
        (ENDED, ALL_OF_IT, 61),
        (BY_ITSELF, RUNNING, 56),
        (TOO_EARLY, RUNNING, 0),
        (TOO_EARLY, TO_THE_END, 0),
        (TOO_EARLY, REQUESTED, 3),
        (TOO_EARLY, ALL_OF_IT, 13),
        (LOST_EARLY, RUNNING, 0),
        (LOST_EARLY, REQUESTED, 3),
        (ENDED, EC2, 60),
        (TOO_EARLY, EC2, 0),
        (RECLAIMED, EC2, 0),
        (replace(RECLAIMED, ended_at=3705.0), EC2, 3600),
        (replace(RECLAIMED, preemptible=False), EC2, 3599),
        (replace(RECLAIMED, reclaimed=False), EC2, 3599),
        (RECLAIMED, RUNNING, 3599),
        (ENDED, HOURS, 3600),
        (replace(ENDED, end_asked_at=3705.0), HOURS, 3600),
        (replace(ENDED, end_asked_at=3705.001, ended_at=4000.0), HOURS, 7200),
        (replace(ENDED, end_asked_at=105.0), HOURS, 0),
        (replace(ENDED, end_asked_at=105.0), EC2, 0),
        (replace(ENDED, end_asked_at=105.0), TO_THE_END, 0),
        (NEW, RUNNING, 9895),
        (replace(NEW, runs_from=9999.5), EC2, 0.5),
        (replace(NEW, runs_from=10_001.0), EC2, 0),
        (ENDING, EC2, 60),
        (ENDING, TO_THE_END, 9895),
    ],
)
def test_billed_time_follows_from_the_record_and_the_text_of_the_rule(
    life: Life, rule: BillingRule, seconds: float
) -> None:
    assert billed_ms(life, rule, NOW) == seconds * 1000


@pytest.mark.parametrize(
    ("life", "usd"),
    [
        (ENDED, "0.05"),
        (replace(ENDED, end_asked_at=465.0, ended_at=470.0), "0.1"),
        (TOO_EARLY, "0"),
        (replace(NEW, runs_from=9999.0), "1/3600"),
    ],
)
def test_the_least_amount_is_of_what_was_billed_and_has_ended(life: Life, usd: str) -> None:
    rule = BillingRule(minimum_amount_usd=Decimal("0.05"))
    assert billed_usd(life, rule, Decimal(1), NOW) == Fraction(usd)


def test_the_record_of_a_machine_is_read_as_it_is() -> None:
    made = cloud(
        faults={"reclaims": 1, "longest_life_s": 50}, pending_time_s=5, destroy_delay_s=100
    )
    taken, asked = create(made, "a", type_=SPOT), create(made, "b", type_=SPOT)
    made.destroy(asked.id, 1)
    story(made)
    at = taken.fate.ends_after_s
    expected = Life(asked_at=0, runs_from=5, ended_at=at, reclaimed=True, preemptible=True)
    assert life_of(taken) == expected
    assert life_of(asked) == replace(
        expected, end_asked_at=1, ended_at=asked.fate.ends_after_s, reclaimed=False
    )


def test_seeds_differ_in_how_their_cloud_bills() -> None:
    clouds = [options_of(seed).cloud for seed in range(60)]
    assert {c.billing.starts for c in clouds} == set(BillingStart)
    assert {c.billing.ends for c in clouds} == set(BillingEnd)
    assert {c.tells_billing for c in clouds} == {True, False}
    for values in (
        {bool(c.zones) for c in clouds},
        {c.billing.unit_s > 1 for c in clouds},
        {c.billing.minimum_s > 0 for c in clouds},
        {c.billing.minimum_amount_usd > 0 for c in clouds},
        {c.billing.free_if_reclaimed_within_s > 0 for c in clouds},
        {c.pending_time_s > 0 for c in clouds},
    ):
        assert values == {True, False}


def telling(seed: int) -> SimOptions:
    """Return a run in which one process lives to the end and can always ask."""
    options = options_of(seed)
    faults = msgspec.structs.replace(
        options.cloud.faults, rate_limits=0.0, retry_after_s=0.0, lost_answers=0.0
    )
    billing = SimulatedBilling(minimum_s=60, free_if_reclaimed_within_s=3600)
    cloud_ = msgspec.structs.replace(
        options.cloud, faults=faults, billing=billing, tells_billing=True, zones=("z1", "z2")
    )
    return replace(options, cloud=cloud_, restarts_in_calm=False)


def test_what_the_ledger_has_in_the_end_is_what_the_cloud_bills() -> None:
    """Whether it is, the world looks itself, of what the cloud has told."""
    settled = 0
    for seed in (0, 8, 11, 21):
        world = World(telling(seed))
        world.run()
        bills = world.store.bills.values()
        assert all(bill.billed.billed_until is not None for bill in bills if bill.final)
        settled += sum(bill.final for bill in bills)
        known = all_billed_ms(
            world.hosts.values(), world.options.cloud.billing.rule(), world.timeline.now
        )
        assert known.keys() == world.hosts.keys()
    assert settled > 5
