"""Drivers for the simulated cloud that are broken in one way each, for tests of the kit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any

from longshore.drivers.billing import Billed, BillingRule, TellsBilling
from longshore.drivers.errors import CloudError, ErrorScope, InstanceNotFound, RateLimitError
from longshore.drivers.interface import (
    CLUSTER_TAG,
    TOKEN_TAG,
    TYPE_TAG,
    Condition,
    Existence,
    HostKeyVerdict,
    Instance,
    InstanceType,
    Leftover,
    Power,
    ZonePrice,
)
from longshore.drivers.simulated.cloud import SimulatedCloud
from tests.altered_driver import Altered, AlteredInstance, Call
from tests.conformance_bed import View


def take_time() -> None:
    """Let others catch up who call at the same time: the kit does that on threads of its own."""
    if threading.current_thread() is not threading.main_thread():
        threading.Event().wait(1.0)


class FickleGroups(Altered):
    """Names another quota group each time."""

    asked = 0

    def quota_group(self, instance_type: InstanceType) -> str:
        self.asked += 1
        return f"{instance_type.name}-{self.asked}"


class Priced(Altered):
    """Tells prices."""

    def prices(self, instance_types: Sequence[InstanceType]) -> Mapping[str, Decimal]:
        return {each.name: Decimal("0.1") for each in instance_types}


class KnowsNothing(Altered):
    """Takes what the cloud does not know for gone."""

    def find(self, instance_id: str) -> Existence:
        found = super().find(instance_id)
        return Existence.GONE if found is Existence.UNKNOWN else found


class Free(Altered):
    """Tells that everything is free."""

    def prices(self, instance_types: Sequence[InstanceType]) -> Mapping[str, Decimal]:
        return {each.name: Decimal(0) for each in instance_types}


class PricedByZone(Priced):
    """Tells what types cost in zones; of these classes it alone is sound."""

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        return [
            ZonePrice(type_name=type_.name, zone=zone, valid_from=at, usd_per_hour=Decimal("0.1"))
            for at in (since - 5, since + 5)
            for zone in zones
            for type_ in instance_types
        ]


class PricesAnyZone(PricedByZone):
    """Tells a zone that nobody asked about."""

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        return super().zone_prices(instance_types, [*zones, "elsewhere"], since)


class FreeInZones(PricedByZone):
    """Tells that what the cloud does not know is free."""

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        told = super().zone_prices(instance_types, zones, since)
        return [replace(each, usd_per_hour=Decimal(0)) for each in told]


class NewestFirst(PricedByZone):
    """Tells the newest price first, as clouds do."""

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        return super().zone_prices(instance_types, zones, since)[::-1]


class ForetellsPrices(PricedByZone):
    """Tells times in milliseconds."""

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        told = super().zone_prices(instance_types, zones, since)
        return [replace(each, valid_from=each.valid_from * 1000) for each in told]


class ChangesOnly(PricedByZone):
    """Tells changes alone, and not what held before."""

    def zone_prices(
        self, instance_types: Sequence[InstanceType], zones: Sequence[str], since: float
    ) -> Sequence[ZonePrice]:
        return super().zone_prices(instance_types, zones, since)[:0]


class HidesZones(PricedByZone):
    """Tells prices of zones, and of no instance where it is."""

    def shown(self, instance: Instance) -> Instance:
        return Zoneless(instance)


class Zoneless(AlteredInstance):
    """Does not tell where it is."""

    @property
    def billed(self) -> Billed:
        return replace(super().billed, zone="")


class LeavesVolumes(Altered):
    """Has a volume for each instance, which stays when that is gone."""

    def __init__(self, cloud: SimulatedCloud) -> None:
        super().__init__(cloud)
        self.volumes: dict[str, Mapping[str, str]] = {}

    def make(self, call: Call) -> Instance:
        made = super().make(call)
        self.volumes[made.id] = call.tags
        return made

    def leftovers(self, tags: Mapping[str, str]) -> Sequence[Leftover]:
        there = {each.id for each in self.cloud.instances({})}
        return [
            Leftover(kind="volume", id=f"vol-of-{owner}")
            for owner, own in sorted(self.volumes.items())
            if owner not in there and tags.items() <= own.items()
        ]


Retelling = Callable[[Billed, int], Billed]


class Mistelling(Altered):
    """Tells of billing what `retold` makes of it and of how often it was told by then."""

    def __init__(
        self,
        cloud: SimulatedCloud,
        *,
        listed: Retelling = lambda billed, _: billed,
        asked: Retelling = lambda billed, _: billed,
        rule: Callable[[BillingRule], BillingRule] = lambda rule: rule,
    ) -> None:
        super().__init__(cloud)
        self.listed = listed
        self.asked = asked
        self.rule = rule
        self.times = 0

    def billing_rule(self) -> BillingRule:
        return self.rule(super().billing_rule())

    def shown(self, instance: Instance) -> Instance:
        assert isinstance(instance, TellsBilling)
        return _Rebilled(instance, self.retold(instance.billed, self.listed))

    def bills(self, instance_ids: Sequence[str]) -> Mapping[str, Billed]:
        told = super().bills(instance_ids)
        return {id_: self.retold(billed, self.asked) for id_, billed in told.items()}

    def retold(self, billed: Billed, retell: Retelling) -> Billed:
        self.times += 1
        return retell(billed, self.times)


class _Rebilled(AlteredInstance):
    def __init__(self, inner: Instance, told: Billed) -> None:
        super().__init__(inner)
        self._told = told

    @property
    def billed(self) -> Billed:
        return self._told


class ForgetsBills(Altered):
    """Tells nothing of billing once an instance is gone."""

    def bills(self, instance_ids: Sequence[str]) -> Mapping[str, Billed]:
        there = {each.id for each in self.cloud.instances({})}
        return {id_: bill for id_, bill in super().bills(instance_ids).items() if id_ in there}


class KnowsAllBills(Altered):
    """Tells of the billing of what never was."""

    def bills(self, instance_ids: Sequence[str]) -> Mapping[str, Billed]:
        return dict.fromkeys(instance_ids, Billed()) | dict(super().bills(instance_ids))


class UntaggedAnswer(Altered):
    """Returns a new instance without its tags, though it has them."""

    def make(self, call: Call) -> Instance:
        made = super().make(call)
        return Retagged(made, {})


class Retagged(AlteredInstance):
    """Shows other tags than it has."""

    def __init__(self, inner: Instance, tags: Mapping[str, str]) -> None:
        super().__init__(inner)
        self._shown = tags

    @property
    def tags(self) -> Mapping[str, str]:
        return self._shown


class ForgetsTypes(Altered):
    """Lists instances without the tag of their type until it is set anew."""

    def make(self, call: Call) -> Instance:
        tags = {key: value for key, value in call.tags.items() if key != TYPE_TAG}
        made = super().make(replace(call, tags=tags))
        return Retagged(made, call.tags)

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        return super().found({key: value for key, value in tags.items() if key != TYPE_TAG})


class LooseFilter(Altered):
    """Looks at the cluster alone."""

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        return super().found({key: tags[key] for key in (CLUSTER_TAG,) if key in tags})


class PrefixFilter(Altered):
    """Takes a value that begins like another for the other."""

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        others = {key: value for key, value in tags.items() if key != CLUSTER_TAG}
        cluster = tags.get(CLUSTER_TAG, "")
        return [
            each
            for each in super().found(others)
            if not cluster or each.tags.get(CLUSTER_TAG, "").startswith(cluster)
        ]


class ListsStrangers(Altered):
    """Lists what has no tag of a cluster for every cluster."""

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        return super().found(tags) + [
            each for each in super().found({}) if tags and CLUSTER_TAG not in each.tags
        ]


class DestroysStrangers(Altered):
    """Destroys what has no tag of a cluster along with anything else."""

    def shown(self, instance: Instance) -> Instance:
        return _Reaper(instance, self)


class _Reaper(AlteredInstance):
    def __init__(self, inner: Instance, owner: Altered) -> None:
        super().__init__(inner)
        self._owner = owner

    def destroy(self) -> None:
        super().destroy()
        for each in self._owner.cloud.instances({}):
            if CLUSTER_TAG not in each.tags:
                each.destroy()


class Tagging(Altered):
    """Sets tags as `alter` of the given ones says: `alter(instance's own, given)`."""

    alter: Callable[[Mapping[str, str], Mapping[str, str]], Mapping[str, str]]

    def shown(self, instance: Instance) -> Instance:
        return _Tagged(instance, type(self).alter)


class _Tagged(AlteredInstance):
    def __init__(self, inner: Instance, alter: Callable[..., Mapping[str, str]]) -> None:
        super().__init__(inner)
        self._alter = alter

    def set_tags(self, tags: Mapping[str, str]) -> None:
        super().set_tags(self._alter(self.tags, tags))


class OneTagOnly(Tagging):
    """Sets the first of several tags."""

    alter = staticmethod(lambda _, given: dict(list(given.items())[:1]))


class LowerCase(Tagging):
    """Writes values in lower case."""

    alter = staticmethod(lambda _, given: {k: v.lower() for k, v in given.items()})


class Overwriting(Tagging):
    """Writes back all tags that the object was listed with."""

    alter = staticmethod(lambda own, given: {**own, **given})


class OneAtATime(Altered):
    """Lists nothing to whoever asks while another does."""

    turn = threading.Lock()

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        if not self.turn.acquire(blocking=False):
            return []
        try:
            take_time()
            return super().found(tags)
        finally:
            self.turn.release()


class IgnoresTokens(Altered):
    """Makes one more instance with each call."""

    calls = 0

    def make(self, call: Call) -> Instance:
        self.calls += 1
        return super().make(replace(call, token=f"{call.token}-{id(self)}-{self.calls}"))


class RemembersTokens(Altered):
    """Knows a token in memory only."""

    def make(self, call: Call) -> Instance:
        return super().make(replace(call, token=f"{call.token}-{id(self)}"))


class LooksFirst(Altered):
    """Looks for the token, then creates, without a lock around both."""

    calls = 0

    def make(self, call: Call) -> Instance:
        for each in self.cloud.instances({TOKEN_TAG: call.token}):
            return each
        take_time()
        self.calls += 1
        return super().make(replace(call, token=f"{call.token}-{threading.get_ident()}"))


class OneCreateAtATime(Altered):
    """Returns the instance of whoever is creating one to all others that create."""

    def __init__(self, cloud: Any) -> None:
        super().__init__(cloud)
        self._lock = threading.Lock()
        self._busy = ""

    def make(self, call: Call) -> Instance:
        with self._lock:
            mine = not self._busy
            self._busy = self._busy or call.token
        if not mine:
            return super().make(replace(call, token=self._busy))
        take_time()
        try:
            return super().make(call)
        finally:
            with self._lock:
                self._busy = ""


class Nowhere(Altered):
    """Tells no addresses."""

    def shown(self, instance: Instance) -> Instance:
        return _Unaddressed(instance)


class _Unaddressed(AlteredInstance):
    @property
    def address(self) -> str:
        return ""


class BootsStopped(Altered):
    """Takes what is there for stopped, whatever it does."""

    def shown(self, instance: Instance) -> Instance:
        return _Stopped(instance)


class _Stopped(AlteredInstance):
    @property
    def condition(self) -> Condition:
        return Condition(power=Power.STOPPED)


class LateScript(Altered):
    """Runs the init command behind the back of whoever logs in."""

    def make(self, call: Call) -> Instance:
        script = f"( {call.init_command}\n) </dev/null >/dev/null 2>&1 &"
        return super().make(replace(call, init_command=script))


class NoScript(Altered):
    """Runs no init command."""

    def make(self, call: Call) -> Instance:
        return super().make(replace(call, init_command=""))


class Credulous(Altered):
    """Vouches for every key."""

    def shown(self, instance: Instance) -> Instance:
        return _Vouched(instance)


class _Vouched(AlteredInstance):
    def verify_host_key(self, public_key: str) -> HostKeyVerdict:
        return HostKeyVerdict.GENUINE if public_key else HostKeyVerdict.WRONG


class DestroysLater(Altered):
    """Destroys nothing until it is asked again."""

    def __init__(self, cloud: Any) -> None:
        super().__init__(cloud)
        self.asked: set[str] = set()

    def shown(self, instance: Instance) -> Instance:
        return _Later(instance, self)


class _Later(AlteredInstance):
    def __init__(self, inner: Instance, owner: DestroysLater) -> None:
        super().__init__(inner)
        self._owner = owner

    def destroy(self) -> None:
        if self.id in self._owner.asked:
            super().destroy()
        self._owner.asked.add(self.id)


class DestroysOnce(DestroysLater):
    """Takes it for an error to destroy what was destroyed."""

    def shown(self, instance: Instance) -> Instance:
        return _Once(instance, self)


class _Once(_Later):
    def destroy(self) -> None:
        if self.id in self._owner.asked:
            raise CloudError("there is no such instance")
        self._owner.asked.add(self.id)
        self.inner.destroy()


class SilentAboutGone(Altered):
    """Has nothing against tags for what is gone."""

    def shown(self, instance: Instance) -> Instance:
        return _Silent(instance)


class _Silent(AlteredInstance):
    def set_tags(self, tags: Mapping[str, str]) -> None:
        with suppress(InstanceNotFound):
            super().set_tags(tags)


class OnDemandOnly(Altered):
    """Buys everything on demand."""

    def make(self, call: Call) -> Instance:
        kind = replace(call.instance_type, preemptible=False)
        return super().make(replace(call, instance_type=kind))


class StaysOn(Altered):
    """Has a power-off command that ends nothing."""

    def power_off_command(self) -> str:
        return "true"


class Deduplicating(Altered):
    """Leaves out what it sees twice, both times."""

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        found = super().found(tags)
        ids = [each.id for each in found]
        return [each for each in found if ids.count(each.id) == 1]


class Renaming(Altered):
    """Raises what `rename` makes of an error of the cloud."""

    rename: Callable[[CloudError], Exception]

    def make(self, call: Call) -> Instance:
        try:
            return super().make(call)
        except CloudError as error:
            raise type(self).rename(error) from error

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        try:
            return super().found(tags)
        except CloudError as error:
            raise type(self).rename(error) from error


def renaming(kind: type[CloudError], into: Callable[[], Exception]) -> View:
    """Return a view that raises `into()` where the cloud raises exactly `kind`."""

    def rename(error: CloudError) -> Exception:
        return into() if type(error) is kind else error

    return type("Renames", (Renaming,), {"rename": staticmethod(rename)})


def scoping(kind: type[CloudError], scope: ErrorScope, into: ErrorScope) -> View:
    """Return a view that tells another scope of an error of that kind."""

    def rename(error: CloudError) -> Exception:
        if isinstance(error, kind) and getattr(error, "scope", None) is scope:
            return kind(str(error), scope=into)  # type: ignore[call-arg]  # only kinds with a scope
        return error

    return type("Rescopes", (Renaming,), {"rename": staticmethod(rename)})


class Patched(Altered):
    """Lists what it can have, and keeps quiet about the rest."""

    def found(self, tags: Mapping[str, str]) -> list[Instance]:
        try:
            return super().found(tags)
        except RateLimitError:
            raise
        except CloudError:
            return []
