"""Drivers that are broken in one way each: the kit finds each by the check that is for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longshore.dispatcher.conformance.kit import CHECKS, Outcome, run
from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudError,
    ErrorScope,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import InstanceType
from longshore.drivers.registry import Capability, DriverInfo, OfferQuery
from tests.altered_driver import Altered
from tests.broken_drivers import (
    BootsStopped,
    ChangesOnly,
    Credulous,
    Deduplicating,
    DestroysLater,
    DestroysOnce,
    DestroysStrangers,
    FickleGroups,
    ForetellsPrices,
    ForgetsBills,
    ForgetsTypes,
    Free,
    FreeInZones,
    HidesZones,
    IgnoresTokens,
    KnowsNothing,
    LateScript,
    LeavesVolumes,
    ListsStrangers,
    LooksFirst,
    LooseFilter,
    LowerCase,
    NewestFirst,
    NoScript,
    Nowhere,
    OnDemandOnly,
    OneAtATime,
    OneCreateAtATime,
    OneTagOnly,
    Overwriting,
    Patched,
    PrefixFilter,
    Priced,
    PricedByZone,
    PricesAnyZone,
    RemembersTokens,
    SilentAboutGone,
    StaysOn,
    UntaggedAnswer,
    renaming,
    scoping,
)
from tests.conformance_bed import PATIENCE, SimulatedBed, View
from tests.driver_bench import TYPE

ON_MACHINES = {
    "boot",
    "init-first",
    "host-key-proof",
    "host-key-verdict",
    "no-host-key-verdict",
    "command",
    "boot-probe",
    "stranger",
    "power-off",
}
"""Checks that wait for an instance to boot; they are made where that is what is broken."""

HURRY = replace(PATIENCE, listing_lag_s=0.5, gone_timeout_s=0.5)
"""For what is broken so that something never comes about, and waiting for it is in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One broken driver, and the checks that it fails; `info` makes of the bed's what it claims."""

    how: str
    fails: tuple[str, ...]
    view: View = Altered
    info: Callable[[DriverInfo], DriverInfo] = field(default=lambda info: info)
    in_vain: bool = False
    machines: bool = False


def claiming(*capabilities: Capability) -> Callable[[DriverInfo], DriverInfo]:
    return lambda info: replace(info, capabilities=info.capabilities | set(capabilities))


class LaxParameters(msgspec.Struct):
    """A typing error in them passes."""

    zone: str = ""


def _lax(info: DriverInfo) -> DriverInfo:
    return replace(info, parameters=LaxParameters)


def _discontent(info: DriverInfo) -> DriverInfo:
    return replace(info, check=lambda _: [("zone", "is missing: add it")])


def _without_preemptible(info: DriverInfo) -> DriverInfo:
    return replace(info, capabilities=info.capabilities - {Capability.PREEMPTIBLE})


def _offering(names: Sequence[str], provider_type: str) -> Callable[[DriverInfo], DriverInfo]:
    def offers(_: Any, __: OfferQuery) -> list[InstanceType]:
        return [replace(TYPE, name=name, provider_type=provider_type) for name in names]

    return lambda info: claiming(Capability.OFFERS)(replace(info, offers=offers))


QUOTA = partial(QuotaError, "the limit")
BROKEN = (
    Broken(how="lax parameters", fails=("registration",), info=_lax),
    Broken(how="finds fault with sound parameters", fails=("parameters",), info=_discontent),
    Broken(how="claims prices", fails=("capabilities",), info=claiming(Capability.PRICES)),
    Broken(how="tells prices unasked", fails=("capabilities",), view=Priced),
    Broken(how="takes any market", fails=("no-preemptible",), info=_without_preemptible),
    Broken(how="fickle quota groups", fails=("quota-groups",), view=FickleGroups),
    Broken(
        how="everything is free", fails=("prices",), view=Free, info=claiming(Capability.PRICES)
    ),
    Broken(
        how="prices any zone",
        fails=("zone-prices",),
        view=PricesAnyZone,
        info=claiming(Capability.PRICES),
    ),
    Broken(how="unsorted offers", fails=("offers",), info=_offering(["b", "a"], "t1")),
    Broken(how="offers cut off", fails=("offers",), info=_offering(["a", "b"], "t9")),
    Broken(how="answers without tags", fails=("create",), view=UntaggedAnswer),
    Broken(how="forgets the type", fails=("listed",), view=ForgetsTypes),
    Broken(how="calls all instances stopped", fails=("listed",), view=BootsStopped),
    Broken(how="filters by cluster only", fails=("filter",), view=LooseFilter),
    Broken(how="filters by prefix", fails=("other-cluster",), view=PrefixFilter),
    Broken(how="lists strangers", fails=("foreign",), view=ListsStrangers),
    Broken(how="destroys strangers", fails=("foreign",), view=DestroysStrangers),
    Broken(how="sets one tag", fails=("set-tags",), view=OneTagOnly, in_vain=True),
    Broken(how="lower case", fails=("tag-values",), view=LowerCase, in_vain=True),
    Broken(how="writes tags back", fails=("stale-object",), view=Overwriting, in_vain=True),
    Broken(how="one listing at a time", fails=("threads",), view=OneAtATime),
    Broken(
        how="ignores tokens",
        fails=("same-token", "other-set", "one-token-at-once", "lost-answer"),
        view=IgnoresTokens,
    ),
    Broken(how="tokens in memory", fails=("other-set",), view=RemembersTokens),
    Broken(how="looks, then creates", fails=("one-token-at-once",), view=LooksFirst),
    Broken(how="one create at a time", fails=("many-at-once",), view=OneCreateAtATime),
    Broken(how="no address", fails=("boot",), view=Nowhere, in_vain=True, machines=True),
    Broken(how="late script", fails=("init-first",), view=LateScript, machines=True),
    Broken(
        how="no script",
        fails=("init-first", "host-key-proof"),
        view=NoScript,
        in_vain=True,
        machines=True,
    ),
    Broken(
        how="vouches for every key",
        fails=("no-host-key-verdict", "unknown-id"),
        view=Credulous,
        machines=True,
    ),
    Broken(
        how="claims host keys",
        fails=("host-key-verdict",),
        info=claiming(Capability.HOST_KEYS),
        machines=True,
    ),
    Broken(
        how="destroys later",
        fails=("destroy", "find", "destroy-early", "foreign", "billing"),
        view=DestroysLater,
        in_vain=True,
    ),
    Broken(how="destroys once", fails=("destroy-again", "duplicates"), view=DestroysOnce),
    Broken(
        how="leaves volumes",
        fails=("leftovers",),
        view=LeavesVolumes,
        info=claiming(Capability.LEFTOVERS),
        in_vain=True,
    ),
    Broken(how="forgets bills", fails=("billing",), view=ForgetsBills, in_vain=True),
    Broken(how="silent about what is gone", fails=("unknown-id",), view=SilentAboutGone),
    Broken(how="takes the unknown for gone", fails=("find",), view=KnowsNothing),
    Broken(how="on demand only", fails=("preemptible",), view=OnDemandOnly),
    Broken(how="stays on", fails=("power-off",), view=StaysOn, in_vain=True, machines=True),
    Broken(how="hides duplicates", fails=("duplicates",), view=Deduplicating),
    Broken(
        how="tells a lost answer as a failure",
        fails=("lost-answer",),
        view=renaming(AmbiguousResult, lambda: CloudError("no answer")),
    ),
    Broken(
        how="does not know throttling",
        fails=("throttled",),
        view=renaming(RateLimitError, lambda: CloudError("slow down")),
    ),
    Broken(
        how="takes limits for shortages",
        fails=("quota-of-group", "quota-of-account"),
        view=renaming(QuotaError, lambda: CapacityError("no more")),
    ),
    Broken(
        how="a limit of all as one of a group",
        fails=("quota-of-account",),
        view=scoping(QuotaError, ErrorScope.ALL, ErrorScope.GROUP),
    ),
    Broken(
        how="takes shortages for limits",
        fails=("short-of-type", "short-of-all"),
        view=renaming(CapacityError, QUOTA),
    ),
    Broken(
        how="a shortage of all as one of a type",
        fails=("short-of-all",),
        view=scoping(CapacityError, ErrorScope.ALL, ErrorScope.TYPE),
    ),
    Broken(
        how="raises what it likes",
        fails=("server-error", "cut-listing"),
        view=renaming(CloudError, lambda: KeyError("instances")),
        in_vain=True,
    ),
    Broken(how="patches listings", fails=("server-error", "cut-listing"), view=Patched),
)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.how)
def test_a_broken_driver_fails_the_check_that_is_for_it(tmp_path: Path, broken: Broken) -> None:
    patience = HURRY if broken.in_vain else PATIENCE
    if broken.how in ("no address", "no script"):
        patience = replace(patience, boot_timeout_s=8.0)
    checks = [each for each in CHECKS if broken.machines or each.name not in ON_MACHINES]
    with closing(SimulatedBed(tmp_path, view=broken.view)) as bed:
        report = run(bed.trial(broken.info(bed.info), patience=patience), only=checks)
    failed = [each.name for each in report.results if each.outcome is Outcome.FAILED]
    told = "\n".join(f"{each.name}: {each.why}" for each in report.results if each.why)
    assert failed == list(broken.fails), told
    assert all(each.remedy for each in report.results if each.outcome is Outcome.FAILED)


@pytest.mark.parametrize(
    ("view", "why"),
    [
        (PricedByZone, ""),
        (FreeInZones, "is none"),
        (NewestFirst, "not sorted by time"),
        (ForetellsPrices, "hold from a time that is not yet"),
        (ChangesOnly, "tells no price of spot in z"),
        (HidesZones, "and not in which one"),
    ],
)
def test_what_is_told_of_prices_in_zones_is_looked_at(tmp_path: Path, view: View, why: str) -> None:
    checks = [each for each in CHECKS if each.name in {"capabilities", "zone-prices"}]
    with closing(SimulatedBed(tmp_path, view=view)) as bed:
        report = run(bed.trial(claiming(Capability.PRICES)(bed.info)), only=checks)
    sound, found = report.results
    assert sound.outcome is Outcome.PASSED
    assert found.outcome is (Outcome.FAILED if why else Outcome.PASSED)
    assert why in found.why
