"""Checks of what a driver says of itself, and of the questions that only some drivers answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from longshore.dispatcher.conformance.billing import CLOCKS_DIFFER_S
from longshore.dispatcher.conformance.harness import Bench
from longshore.dispatcher.conformance.model import Markets, Nonconformity, NotShown
from longshore.drivers.billing import Bills, TellsBilling
from longshore.drivers.interface import (
    Finds,
    InstanceType,
    Leftovers,
    Prices,
    QuotaGroups,
    WarnsOfInterruption,
    ZonePrice,
    ZonePrices,
)
from longshore.drivers.registry import Capability, OfferQuery

_HISTORY_S: Final = 3600.0
"""For how long back prices of zones are asked for."""


def check_registration(bench: Bench) -> None:
    """Its name and summary are there, and its parameters are a type that refuses typing errors."""
    info = bench.trial.info
    if not info.name or not info.summary:
        raise Nonconformity("its name or summary is empty", "say in a few words what it is")
    if not issubclass(info.parameters, msgspec.Struct):
        raise Nonconformity("its parameters are no msgspec.Struct", "make them one")
    if not info.parameters.__struct_config__.forbid_unknown_fields:
        raise Nonconformity(
            "its parameters take any name, so that a typing error passes as a default",
            "declare them with forbid_unknown_fields=True",
        )


def check_parameters(bench: Bench) -> None:
    """It finds nothing wrong with the parameters and types that it is tried with."""
    trial = bench.trial
    problems = list(trial.info.check(trial.parameters)) if trial.info.check else []
    if problems:
        told = "; ".join(f"{path}: {what}" for path, what in problems)
        raise Nonconformity(f"`check` of its DriverInfo says: {told}", "mend check or parameters")
    types = [trial.instance_type, *trial.other_types]
    if Capability.PREEMPTIBLE in trial.info.capabilities and trial.preemptible_type is not None:
        types.append(trial.preemptible_type)
    for type_ in types:
        fault = _fault_of(bench, type_)
        if fault is not None:
            raise Nonconformity(f"`fault_of_type` says of {type_.name}: {fault}", "mend either")


def check_capabilities(bench: Bench) -> None:
    """It has what it claims, and claims what it has."""
    claimed = bench.trial.info.capabilities
    watch = bench.set.interruption_watch() if isinstance(bench.set, WarnsOfInterruption) else ""
    has = {
        Capability.QUOTA_GROUPS: isinstance(bench.set, QuotaGroups),
        Capability.POWER_OFF: bool(bench.power_off),
        Capability.PRICES: isinstance(bench.set, Prices),
        Capability.FINDS: isinstance(bench.set, Finds),
        Capability.LEFTOVERS: isinstance(bench.set, Leftovers),
        Capability.INTERRUPTION_NOTICES: bool(watch),
        Capability.BILLING: isinstance(bench.set, Bills),
        Capability.OFFERS: bench.trial.info.offers is not None,
    }
    missing = sorted(each.value for each, there in has.items() if each in claimed and not there)
    silent = sorted(each.value for each, there in has.items() if there and each not in claimed)
    if missing:
        raise Nonconformity(
            f"it claims {', '.join(missing)} and has no such thing",
            "implement it, or leave it out of `capabilities`",
        )
    if silent:
        raise Nonconformity(
            f"it can do {', '.join(silent)} and does not say so", "add it to `capabilities`"
        )


def check_no_preemptible(bench: Bench) -> None:
    """It refuses preemptible types, since it cannot create them."""
    type_ = bench.trial.preemptible_type or preemptible(bench.trial.instance_type)
    if not _fault_of(bench, type_):
        raise Nonconformity(
            "it takes preemptible types, and does not claim to create them as such",
            "return a sentence in `fault_of_type`, or create them and claim `preemptible`",
        )


def check_quota_groups(bench: Bench) -> None:
    """It names the limit that each type counts against, the same each time."""
    if not isinstance(bench.set, QuotaGroups):
        raise NotShown("it has no quota groups, see capabilities")
    for type_ in (bench.trial.instance_type, *bench.trial.other_types):
        names = [bench.set.quota_group(type_) for _ in range(2)]
        if not all(isinstance(each, str) for each in names) or names[0] != names[1]:
            raise Nonconformity(
                f"the quota group of {type_.name} is once {names[0]!r}, once {names[1]!r}",
                "return one text for one type",
            )


def check_prices(bench: Bench) -> str:
    """It tells what the types cost now."""
    driver = bench.set
    if not isinstance(driver, Prices):
        raise NotShown("it tells no prices, see capabilities")
    types = _types_of(bench)
    told = bench.patiently(lambda: driver.prices(types))
    strange = sorted(told.keys() - {each.name for each in types})
    if strange:
        raise Nonconformity(
            f"it tells a price of {', '.join(strange)}, which is no type that it was asked about",
            "answer by the `name` of the types",
        )
    wrong = sorted(name for name, price in told.items() if not (price.is_finite() and price > 0))
    if wrong:
        raise Nonconformity(
            f"the price of {', '.join(wrong)} is none",
            "leave out what the cloud does not tell, and tell the rest in USD an hour",
        )
    if not told:
        raise Nonconformity("it tells no price of any type", "look them up by `provider_type`")
    return ", ".join(f"{name} {price}" for name, price in sorted(told.items()))


def check_zone_prices(bench: Bench) -> str:
    """It tells what types cost in the zone of an instance: what held an hour ago, and changes."""
    driver = bench.set
    if not isinstance(driver, ZonePrices):
        raise NotShown("it tells no prices of zones")
    listed = bench.first_listed()
    zone = listed.billed.zone if isinstance(listed, TellsBilling) else ""
    if not zone:
        raise Nonconformity(
            f"it tells prices of zones, and not in which one {listed.id} is",
            "tell `zone` in the property `billed` of instances, or leave `zone_prices` out",
        )
    types = _types_of(bench)
    since = bench.trial.epoch_now() - _HISTORY_S
    told = bench.patiently(lambda: driver.zone_prices(types, [zone], since))
    _expect_asked_for(told, {each.name for each in types}, zone)
    latest = bench.trial.epoch_now() + CLOCKS_DIFFER_S
    times = [each.valid_from for each in told]
    if times != sorted(times) or any(at > latest for at in times):
        raise Nonconformity(
            "its prices of zones are not sorted by time, or hold from a time that is not yet",
            "tell since when each holds, in seconds since the epoch, the oldest first",
        )
    if not told and bench.trial.preemptible_type is not None:
        raise Nonconformity(
            f"it tells no price of {bench.trial.preemptible_type.name} in {zone}",
            "tell what held at `since`, too: prices may not have changed for days",
        )
    return f"{len(told)} in {zone}"


def _expect_asked_for(told: Sequence[ZonePrice], names: Collection[str], zone: str) -> None:
    """Expect prices that are some, of what was asked about."""
    strange = sorted({(e.type_name, e.zone) for e in told if e.type_name not in names})
    strange += sorted({(e.type_name, e.zone) for e in told if e.zone != zone})
    if strange:
        name, where = strange[0]
        raise Nonconformity(
            f"it tells a price of {name} in {where}, which it was not asked about",
            "answer by the `name` of the types, and for the zones that are asked for alone",
        )
    wrong = sorted(
        {e.type_name for e in told if not (e.usd_per_hour.is_finite() and e.usd_per_hour > 0)}
    )
    if wrong:
        raise Nonconformity(
            f"the price of {', '.join(wrong)} in {zone} is none",
            "leave out what the cloud does not tell: of nothing the price is not 0",
        )


def _types_of(bench: Bench) -> list[InstanceType]:
    """Return all types of a trial."""
    spot = bench.trial.preemptible_type
    more = [] if spot is None else [spot]
    return [bench.trial.instance_type, *bench.trial.other_types, *more]


def check_offers(bench: Bench) -> str:
    """It tells the types that the account can have, among them the one that is tried."""
    offers = bench.trial.info.offers
    if offers is None:
        raise NotShown("it tells no offers, see capabilities")
    query = OfferQuery(preemptible=True)
    told = bench.patiently(lambda: list(offers(bench.trial.parameters, query)))
    names = [each.name for each in told]
    if names != sorted(set(names)):
        raise Nonconformity(
            "the offers are not sorted by name, or a name comes twice", "sort them, one of each"
        )
    empty = [each.name for each in told if not each.resources.cpu_millis]
    if empty:
        raise Nonconformity(f"{empty[0]} is offered without any cpu", "tell what it has")
    if bench.trial.instance_type.provider_type not in {each.provider_type for each in told}:
        raise Nonconformity(
            f"{bench.trial.instance_type.provider_type} is not among the {len(told)} offers, "
            "though it can be created",
            "read all pages of the answer",
        )
    return f"{len(told)} types"


def check_preemptible(bench: Bench) -> None:
    """A preemptible type is created as such, and another one is not."""
    type_ = bench.trial.preemptible_type
    if type_ is None:
        raise NotShown("there is no preemptible instance type to try")
    bed: object = bench.trial.bed
    with bench.own(type_=type_) as subject:
        bench.await_listed(subject.id)
        if isinstance(bed, Markets) and not bed.is_preemptible(subject.id):
            raise Nonconformity(
                f"{type_.name} was created as one that the cloud does not take back",
                "look at `preemptible` of the instance type in the create call",
            )
    with bench.own() as subject:
        if isinstance(bed, Markets) and bed.is_preemptible(subject.id):
            raise Nonconformity(
                f"{bench.trial.instance_type.name} was created as a preemptible one",
                "look at `preemptible` of the instance type in the create call",
            )


def preemptible(type_: InstanceType) -> InstanceType:
    """Return the type as one that the cloud may take back."""
    return InstanceType(
        name=type_.name,
        provider_type=type_.provider_type,
        resources=type_.resources,
        price_usd_per_hour=type_.price_usd_per_hour,
        preemptible=True,
    )


def _fault_of(bench: Bench, type_: InstanceType) -> str | None:
    info = bench.trial.info
    return info.fault_of_type(bench.trial.parameters, type_) if info.fault_of_type else None
