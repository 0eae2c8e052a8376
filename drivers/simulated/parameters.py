"""How the simulated cloud behaves, as the configuration tells it."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

import msgspec

from longshore.drivers.billing import BillingEnd, BillingRule, BillingStart
from longshore.drivers.interface import TOKEN_TAG

Delay = Annotated[float, msgspec.Meta(ge=0, le=86400)]
Count = Annotated[int, msgspec.Meta(ge=0, le=100_000)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
WholeSeconds = Annotated[int, msgspec.Meta(ge=0, le=31 * 86400)]
Usd = Annotated[float, msgspec.Meta(ge=0, le=1000)]


class SimulatedFaults(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What goes wrong, as shares of calls or of instances from 0 to 1; durations in seconds.

    Of calls: `create_errors`, `destroy_errors`, `listing_errors` and `tag_errors` fail and nothing
    is done; `rate_limits` are throttled, to be tried again after `retry_after_s` (0: not told); of
    creates, `lost_answers` make the instance and answer that nobody knows, `false_alarms` answer
    so and make none; those of `impossible_types` (provider types) fail always, without a cause.

    Of listings: a new instance is missing for up to `listing_lag_s`, one that is gone is shown for
    up to `gone_lag_s`, tags are stale for up to `tag_lag_s`; `duplicates` of instances come twice.

    Of instances: `slow_boots` take `slow_boot_factor` times as long, `dead_boots` are never
    reachable, `vanishing` ones end by themselves and `reclaims` of the preemptible ones are taken
    back, within `longest_life_s`, the latter with `reclaim_notice_s` of notice (0: none);
    `without_runner` ones cannot run ours, `breaking` ones say of themselves that they are broken,
    from some time within `longest_life_s` on.
    """

    create_errors: Share = 0.0
    destroy_errors: Share = 0.0
    listing_errors: Share = 0.0
    tag_errors: Share = 0.0
    rate_limits: Share = 0.0
    retry_after_s: Delay = 0.0
    lost_answers: Share = 0.0
    false_alarms: Share = 0.0
    impossible_types: tuple[Name, ...] = ()
    listing_lag_s: Delay = 0.0
    gone_lag_s: Delay = 0.0
    tag_lag_s: Delay = 0.0
    duplicates: Share = 0.0
    slow_boots: Share = 0.0
    slow_boot_factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 10.0
    dead_boots: Share = 0.0
    vanishing: Share = 0.0
    reclaims: Share = 0.0
    reclaim_notice_s: Delay = 0.0
    longest_life_s: Delay = 600.0
    without_runner: Share = 0.0
    breaking: Share = 0.0


class SimulatedBilling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the cloud bills an instance (see `drivers.billing.BillingRule`)."""

    starts: BillingStart = BillingStart.RUNNING
    ends: BillingEnd = BillingEnd.SHUTTING_DOWN
    unit_s: Annotated[int, msgspec.Meta(ge=1, le=86400)] = 1
    minimum_s: WholeSeconds = 0
    minimum_amount_usd: Usd = 0.0
    free_if_reclaimed_within_s: WholeSeconds = 0

    def rule(self) -> BillingRule:
        """Return it as a driver tells it."""
        return BillingRule(
            starts=self.starts,
            ends=self.ends,
            unit_s=self.unit_s,
            minimum_s=self.minimum_s,
            minimum_amount_usd=Decimal(str(self.minimum_amount_usd)),
            free_if_reclaimed_within_s=self.free_if_reclaimed_within_s,
        )


class SimulatedParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the cloud behaves; durations in seconds.

    An instance refuses connections for `boot_time_s`, and up to `boot_jitter_s` more as the dice of
    `seed` fall. `quota` is the most instances there may be (0: no limit), `capacity` the most of
    each provider type named. `quota_groups` names the group of provider types that share a limit of
    their own, and `group_quotas` those limits, by "GROUP" for on-demand and "GROUP/spot" for
    preemptible instances. A create call takes `create_delay_s`, though the instance is there from
    its beginning; a destroyed one leaves the listing after `destroy_delay_s`. `late_tags` are the
    tags that a listing may lack while tags lag (`faults.tag_lag_s`). `finds` says whether it tells
    of an instance, asked by its id, that it has ended. `state_dir` is where the instances'
    directories are ("": where the dispatcher keeps its data).

    An instance runs `pending_time_s` after it was asked for, and is in one of `zones` (none: the
    cloud has no such thing). It is billed as `billing` says; `tells_billing` says whether the cloud
    tells when that begins and ends, and the zone.
    """

    boot_time_s: Delay = 1.0
    boot_jitter_s: Delay = 0.0
    seed: int = 0
    quota: Count = 0
    quota_groups: dict[Name, str] = {}
    group_quotas: dict[Name, Count] = {}
    capacity: dict[Name, Count] = {}
    create_delay_s: Delay = 0.0
    destroy_delay_s: Delay = 0.0
    late_tags: tuple[str, ...] = (TOKEN_TAG,)
    finds: bool = True
    pending_time_s: Delay = 0.0
    zones: tuple[Name, ...] = ()
    billing: SimulatedBilling = SimulatedBilling()
    tells_billing: bool = True
    faults: SimulatedFaults = SimulatedFaults()
    state_dir: str = ""
