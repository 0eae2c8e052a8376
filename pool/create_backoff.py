"""When creates may be tried again: holds by cause and scope, each with its own end.

Pure: `now` comes in, ends come out; who asks for creates looks here first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    ErrorScope,
    QuotaError,
    RateLimitError,
)
from longshore.drivers.interface import InstanceType
from longshore.pool.backoff import REASON_LENGTH, doubled_s, rate_limited_s, sentence
from longshore.pool.holds import (
    EVERYTHING,
    Allowance,
    CreateBlock,
    CreateBlockKind,
    CreateHold,
    HoldCause,
    InstanceCounts,
    Scope,
)
from longshore.pool.model import PoolSettings
from longshore.pool.quotas import KnownQuota, ObservedQuotas

# --------------------------------------------------------------------------------------------------
# Create calls with an unknown outcome. A single one is ignored; consecutive ones of a type count as
# errors of that type, and hold its creates.


class AmbiguousCreates:
    """Since when creates of a type had unknown outcomes without a success, by the type's name."""

    def __init__(self, *, forgotten_after_s: float) -> None:
        """Know of none; a row is forgotten after this time, unless errors hold its type."""
        self._forgotten_after_s = forgotten_after_s
        self._since: dict[str, float] = {}

    def begins_row(self, type_name: str, *, began_at: float, holding: bool, now: float) -> bool:
        """Note a create, begun at `began_at`, with an unknown outcome; return whether to ignore it.

        It is ignored if it is the first of a row, or was under way together with the first.
        `holding` says that errors hold the type, or did a short while ago.
        """
        since = self._since.get(type_name)
        if since is None or (now >= since + self._forgotten_after_s and not holding):
            self._since[type_name] = now
            return True
        return began_at <= since

    def ended(self, type_name: str, *, began_at: float) -> None:
        """Note that a create succeeded: the row is over, unless the create began before the row."""
        if type_name in self._since and began_at >= self._since[type_name]:
            del self._since[type_name]


# ---- when creates may be tried again: holds by cause and scope, each with its own end ------------

_ERROR_FIRST_S = 0.5
_ERROR_MOST_S = 60.0
_ERRORS_ALIKE = 3
"""So many errors in a row may be chance: only then holds double, or nothing goes on for long."""

_OTHERS_FIRST_S = 0.1
_CAPACITY_MOST_S = 900.0
_BOOT_FAILURE_FIRST_S = 0.5
_BOOT_FAILURE_MOST_S = 900.0
_FORGOTTEN_AFTER_S = 900.0


_KINDS = {
    HoldCause.CAPACITY: CreateBlockKind.CAPACITY,
    HoldCause.QUOTA: CreateBlockKind.QUOTA,
    HoldCause.RATE_LIMIT: CreateBlockKind.OTHER,
    HoldCause.ERROR: CreateBlockKind.OTHER,
    HoldCause.BOOT_FAILURE: CreateBlockKind.OTHER,
}


@dataclass(slots=True, kw_only=True)
class _Record:
    """A hold, perhaps over, and how often it was repeated; kept until a success or long quiet.

    `first_at` is when the first of those that followed each other began. Of one type's errors,
    `others_work` says that an instance of another was made since the first.
    """

    hold: CreateHold
    repeats: int
    first_at: float
    others_work: bool = False


class CreateBackoff:
    """What holds creates; each cause and scope on its own, none ends another's."""

    def __init__(
        self,
        *,
        settings: PoolSettings,
        types: Mapping[str, InstanceType],
        groups: Mapping[str, str],
    ) -> None:
        """Hold nothing yet; `groups` names the quota group of each type (by name), if it has one.

        Types without a group share one limit, whatever their market.
        """
        self._settings = settings
        self._types = dict(types)
        self._groups = dict(groups)
        self._grouped = any(self._groups.get(name) for name in self._types)
        self._records: dict[tuple[HoldCause, Scope], _Record] = {}
        self._doubts = AmbiguousCreates(forgotten_after_s=_FORGOTTEN_AFTER_S)
        self._left_at: dict[str, float] = {}
        self.quotas = ObservedQuotas(
            covers=self.covers, types=tuple(self._types.values()), first_s=settings.quota_hold_s
        )

    def covers(self, scope: Scope, type_: InstanceType) -> bool:
        """Return whether a scope includes a type, which need not be configured."""
        return (
            scope.type_name in (None, type_.name)
            and scope.group in (None, self._groups.get(type_.name, ""))
            and scope.preemptible in (None, type_.preemptible)
            and type_.resources.cpu_millis >= (scope.cpu_millis_from or 0)
        )

    # ---- what happened ---------------------------------------------------------------------

    def failed(
        self,
        type_: InstanceType,
        error: CloudError,
        *,
        began_at: float,
        tally: Callable[[Scope], InstanceCounts],
        now: float,
    ) -> None:
        """Hold what an error of a create call, begun at `began_at`, tells to hold.

        `tally` counts the instances of a scope. Errors of calls that were under way together count
        once, so that ten at once double nothing. A doubt alone holds nothing.
        """
        if isinstance(error, AmbiguousResult):
            known = any(r.hold.cause is HoldCause.ERROR for r in self._covering(type_, now))
            if self._doubts.begins_row(type_.name, began_at=began_at, holding=known, now=now):
                return
        cause, scope = self._blame(type_, error)
        # Bad credentials are no type's fault.
        of_a_type = cause is HoldCause.ERROR and not isinstance(error, CloudAuthError)
        if of_a_type and self._is_its_own(type_, now):
            scope = Scope(type_name=type_.name)
        if cause is HoldCause.QUOTA:
            told = sentence(error)
            scope, alone = self._reach(type_, scope, tally, now)
            counted = tally(scope)
            self.quotas.refused(scope, counted, told, alone=alone, began_at=began_at, now=now)
        repeats = self._repeats((cause, scope), began_at, now)
        until = self._hold(
            cause,
            scope,
            now=now,
            length_s=self._length_s(cause, error, repeats),
            reason=sentence(error),
            error=type(error).__name__,
            repeats=repeats,
        )
        if of_a_type and scope == EVERYTHING and len(self._types) > 1:
            self._suspect(type_, error, began_at=began_at, others_until=until, now=now)

    def _reach(
        self,
        type_: InstanceType,
        scope: Scope,
        tally: Callable[[Scope], InstanceCounts],
        now: float,
    ) -> tuple[Scope, bool]:
        """Return which types a quota's error is about, and whether it refused one though none was
        there.

        If none was there, waiting for others to leave is of no use. The quota may count cpus or the
        like, so that a refused type, alone in its quota, says nothing of smaller ones: the scope
        becomes types of its size and above. Once that is known it is not undone because instances
        (smaller ones) are there at the next try. An instance that left less than `quota_hold_s` ago
        may be counted by the cloud still, and is taken for one that was there.
        """
        of_size = scope
        if scope.type_name is None:
            of_size = replace(scope, cpu_millis_from=type_.resources.cpu_millis)
        if self._is_known_alone(type_, scope, now):
            return of_size, True
        since = now - self._settings.quota_hold_s
        types = (
            self._types.get(name) for name, left_at in self._left_at.items() if left_at > since
        )
        has_left = any(each is not None and self.covers(of_size, each) for each in types)
        if tally(scope).taken or has_left:
            return scope, False
        if of_size != scope:
            # What was told of all of them was told of those as large, which were tried at once.
            self.quotas.forget(scope)
            self._records.pop((HoldCause.QUOTA, scope), None)
        return of_size, True

    def _is_known_alone(self, type_: InstanceType, scope: Scope, now: float) -> bool:
        """Return whether a quota of a scope is known to refuse a type, or a smaller one, alone."""
        return any(
            known.alone
            and replace(known.scope, cpu_millis_from=None) == scope
            and self.covers(known.scope, type_)
            for known in self.quotas.known(now)
        )

    def _is_its_own(self, type_: InstanceType, now: float) -> bool:
        """Return whether an error without a scope is its type's: creates of others succeed."""
        record = self._records.get((HoldCause.ERROR, Scope(type_name=type_.name)))
        return record is not None and not _is_forgotten(record, now) and record.others_work

    def _suspect(
        self,
        type_: InstanceType,
        error: CloudError,
        *,
        began_at: float,
        others_until: float,
        now: float,
    ) -> None:
        """From a type's second such failure in a row on, hold it a moment longer than all others.

        An error without a scope may be the type's own; without this it would always be tried first.
        The moment is short, so that nobody waits much longer who can use no other type.
        """
        scope = Scope(type_name=type_.name)
        repeats = self._repeats((HoldCause.ERROR, scope), began_at, now)
        self._hold(
            HoldCause.ERROR,
            scope,
            now=now,
            length_s=others_until - now + _OTHERS_FIRST_S if repeats else 0.0,
            reason=sentence(error),
            error=type(error).__name__,
            repeats=repeats,
        )

    def boot_failed(self, *, count: int, why: str, now: float) -> float:
        """Hold all creates for 0.5 s or longer: the last `count`, 2 or more, were of no use.

        Returns the hold's end.
        """
        return self._hold(
            HoldCause.BOOT_FAILURE,
            EVERYTHING,
            now=now,
            length_s=doubled_s(_BOOT_FAILURE_FIRST_S, count - 2, _BOOT_FAILURE_MOST_S),
            reason=f"the last {count} instances were of no use: {why}"[:REASON_LENGTH],
        )

    def useful(self) -> None:
        """End what instances of no use hold: one is of use."""
        self._records.pop((HoldCause.BOOT_FAILURE, EVERYTHING), None)

    def succeeded(self, type_: InstanceType, *, began_at: float) -> None:
        """End the trials that a successful create, begun at `began_at`, concludes.

        One that began before a hold did says nothing about it; that an instance was made does not
        say that it is of use. Errors of other types are their own from now on.
        """
        self._doubts.ended(type_.name, began_at=began_at)
        for key, record in list(self._records.items()):
            of_another = record.hold.scope.type_name not in (None, type_.name)
            if of_another and record.hold.cause is HoldCause.ERROR:
                record.others_work = record.others_work or began_at >= record.hold.since
            concluded = began_at >= record.hold.until and self.covers(record.hold.scope, type_)
            if concluded and record.hold.cause is not HoldCause.BOOT_FAILURE:
                del self._records[key]

    def instance_left(self, type_: InstanceType, now: float) -> None:
        """Note that an instance is gone: the cloud's quota may count it for a while yet."""
        self._left_at[type_.name] = now

    # ---- what follows ------------------------------------------------------------------------

    def active(self, now: float) -> list[CreateHold]:
        """Return the holds that are on, by cause, the oldest first."""
        if not self._records:
            return []
        records = (r for cause in HoldCause for r in self._of(cause))
        return [record.hold for record in records if now < record.hold.until]

    def of(self, cause: HoldCause, now: float) -> CreateHold | None:
        """Return the oldest hold of a cause that is on, None when none is."""
        return next((hold for hold in self.active(now) if hold.cause is cause), None)

    def short_since(self, type_: InstanceType, now: float) -> float | None:
        """Return since when the cloud is short of a type, None where it is not, as far as is known.

        That lasts until one of the type is created, also while it may be tried again.
        """
        short = (r for r in self._covering(type_, now) if r.hold.cause is HoldCause.CAPACITY)
        return min((record.first_at for record in short), default=None)

    def is_short(self, type_: InstanceType, now: float) -> bool:
        """Return whether nothing of a type is tried now, since the cloud has none."""
        return any(
            now < record.hold.until and record.hold.cause is HoldCause.CAPACITY
            for record in self._covering(type_, now)
        )

    def next_end(self, now: float) -> float | None:
        """Return when the next hold ends, None when none is on."""
        return min((hold.until for hold in self.active(now)), default=None)

    def create_block(
        self,
        type_: InstanceType,
        *,
        in_flight: Collection[InstanceType],
        unproven: bool,
        tally: Callable[[Scope], InstanceCounts],
        now: float,
    ) -> CreateBlock | None:
        """Return what keeps a type from being created, None when nothing does.

        `in_flight` are the types of the creates under way: on a trial there may be one. `unproven`
        says that there is an instance which may yet be of use, the trial of useless ones. `tally`
        counts the instances of a scope.
        """
        covering = self._covering(type_, now)
        held = [record for record in covering if now < record.hold.until]
        if held and held[0].hold.cause is HoldCause.CAPACITY:
            return self._create_block(held[0].hold, now)
        used_up = self._used_up(type_, tally, now)
        if used_up is not None and (used_up.until is not None or not held):
            return used_up
        if held:
            return self._create_block(held[0].hold, now)
        for record in covering:
            tried = any(self.covers(record.hold.scope, each) for each in in_flight)
            if tried or (unproven and record.hold.cause is HoldCause.BOOT_FAILURE):
                return self._create_block(record.hold, now)
        return None

    def allowances(
        self, type_: InstanceType, *, tally: Callable[[Scope], InstanceCounts], now: float
    ) -> dict[Scope, Allowance]:
        """Return the scopes in which only some may be created now, with what hinders the others.

        After a hold it is one, to try; at a quota, those that are known to be allowed, and when its
        hold is over one more.
        """
        found = self._allowances_of_quotas(type_, tally, now)
        for record in self._covering(type_, now):
            scope = record.hold.scope
            if now >= record.hold.until and (scope not in found or found[scope].number > 1):
                found[scope] = Allowance(number=1, then=self._create_block(record.hold, now))
        return found

    def may_be_refused(
        self, type_: InstanceType, tally: Callable[[Scope], InstanceCounts], now: float
    ) -> bool:
        """Return whether one more would be the last that a quota allows, or one too many."""
        found = self._allowances_of_quotas(type_, tally, now).values()
        return any(each.is_trial or each.number <= 1 for each in found)

    def at_quota(self, tally: Callable[[Scope], InstanceCounts], now: float) -> bool:
        """Return whether a quota keeps anything from being created until its hold is over."""
        held = [k for k in self.quotas.known(now) if self._quota_held_until(k.scope, now)]
        counted = [(max(each.most, tally(each.scope).standing), tally(each.scope)) for each in held]
        return any(count.taken >= most for most, count in counted)

    def tries_quota(self, tally: Callable[[Scope], InstanceCounts], now: float) -> bool:
        """Return whether a create is under way that tells if a quota's limit is still the same."""
        known = self.quotas.known(now)
        free = [each for each in known if self._quota_held_until(each.scope, now) is None]
        counted = [(max(each.most, tally(each.scope).standing), tally(each.scope)) for each in free]
        return any(count.coming and count.taken > most for most, count in counted)

    # ---- inside --------------------------------------------------------------------------------

    def _of(self, cause: HoldCause) -> Iterator[_Record]:
        return (record for (of, _), record in self._records.items() if of is cause)

    def _covering(self, type_: InstanceType, now: float) -> list[_Record]:
        if not self._records:
            return []
        records = (r for cause in HoldCause for r in self._of(cause))
        return [
            record
            for record in records
            if self.covers(record.hold.scope, type_)
            and not _is_forgotten(record, now)
            and record.hold.cause is not HoldCause.QUOTA
        ]

    def _allowances_of_quotas(
        self, type_: InstanceType, tally: Callable[[Scope], InstanceCounts], now: float
    ) -> dict[Scope, Allowance]:
        """Return how many more of a type may be created, by each quota that errors told of."""
        known = [each for each in self.quotas.known(now) if self.covers(each.scope, type_)]
        alone = any(each.alone and not tally(each.scope).standing for each in known)
        return {
            each.scope: self._allowance(type_, each, tally(each.scope), alone=alone, now=now)
            for each in known
        }

    def _used_up(
        self, type_: InstanceType, tally: Callable[[Scope], InstanceCounts], now: float
    ) -> CreateBlock | None:
        """Return which quota allows no more of a type now, None when each does."""
        found = self._allowances_of_quotas(type_, tally, now).values()
        used_up = [each.then for each in found if not each.number]
        return next((each for each in used_up if each.until is not None), next(iter(used_up), None))

    def _allowance(
        self,
        type_: InstanceType,
        known: KnownQuota,
        counted: InstanceCounts,
        *,
        alone: bool,
        now: float,
    ) -> Allowance:
        """Return how many more of a type a quota is known to allow, or one to try that."""
        until = self._quota_held_until(known.scope, now)
        left = max(known.most, counted.standing) - counted.taken
        cpu_millis = max(known.most_cpu_millis, counted.standing_cpu_millis)
        cpu_millis -= counted.taken_cpu_millis
        left_of_size = cpu_millis // max(1, type_.resources.cpu_millis)
        number = max(0, min(left, left_of_size))
        is_trial = not number
        if is_trial and not counted.coming:
            number = int(until is None or left > 0 or left_of_size > 0)
        message = known.reason
        if number and not is_trial:
            message = f"as many are being created as are known to be allowed: {known.reason}"
        elif number or (until is None and counted.coming):
            message = f"one create is being tried, after: {known.reason}"
        elif until is None:
            message = f"those that are being shut down must be gone first, after: {known.reason}"
        # What is being created is no refusal: nobody need be stopped or shut down for it.
        until = None if number else until
        kind = CreateBlockKind.QUOTA if until is not None else CreateBlockKind.OTHER
        return Allowance(
            number=number,
            cpu_millis=None if is_trial else cpu_millis,
            is_trial=is_trial,
            then=self._create_block_in(
                known.scope,
                kind=CreateBlockKind.NONE_ALLOWED if alone else kind,
                message=message,
                until=until,
                topic=f"{HoldCause.QUOTA.value} {QuotaError.__name__}",
            ),
        )

    def _quota_held_until(self, scope: Scope, now: float) -> float | None:
        """Return until when no more are tried than are known to be allowed, None for now."""
        record = self._records.get((HoldCause.QUOTA, scope))
        return record.hold.until if record is not None and now < record.hold.until else None

    def _repeats(self, key: tuple[HoldCause, Scope], began_at: float, now: float) -> int:
        """Return how many failures of calls one after the other there were before this one."""
        record = self._records.get(key)
        if record is None or _is_forgotten(record, now):
            return 0
        again = began_at >= record.hold.until
        return record.repeats + 1 if again else record.repeats

    def _hold(
        self,
        cause: HoldCause,
        scope: Scope,
        *,
        now: float,
        length_s: float,
        reason: str,
        error: str = "",
        repeats: int = 0,
    ) -> float:
        self._forget(now)
        old = self._records.get((cause, scope))
        since, until = now, now + length_s
        if old is not None and now < old.hold.until:
            since, until = old.hold.since, max(until, old.hold.until)
        hold = CreateHold(
            cause=cause,
            scope=scope,
            since=since,
            until=until,
            reason=reason,
            error=error,
        )
        others_work = old is not None and old.others_work
        self._records[cause, scope] = _Record(
            hold=hold,
            repeats=repeats,
            first_at=now if old is None else old.first_at,
            others_work=others_work,
        )
        return until

    def _forget(self, now: float) -> None:
        records = self._records.items()
        self._records = {key: each for key, each in records if not _is_forgotten(each, now)}

    def _blame(self, type_: InstanceType, error: CloudError) -> tuple[HoldCause, Scope]:
        """Return what an error holds creates for, and which."""
        match error:
            case QuotaError():
                return HoldCause.QUOTA, self._limited_in(type_, error.scope)
            case CapacityError():
                return HoldCause.CAPACITY, self._short_of(type_, error.scope)
            case RateLimitError():
                return HoldCause.RATE_LIMIT, EVERYTHING
            case _:
                return HoldCause.ERROR, EVERYTHING

    def _limited_in(self, type_: InstanceType, scope: ErrorScope) -> Scope:
        match scope:
            case ErrorScope.TYPE:
                return Scope(type_name=type_.name)
            case ErrorScope.GROUP:
                if not self._grouped:
                    return EVERYTHING
                group = self._groups.get(type_.name, "")
                return Scope(group=group, preemptible=type_.preemptible if group else None)
            case ErrorScope.ALL:
                return EVERYTHING
            case _:
                assert_never(scope)

    def _short_of(self, type_: InstanceType, scope: ErrorScope) -> Scope:
        match scope:
            case ErrorScope.TYPE:
                return Scope(type_name=type_.name)
            case ErrorScope.GROUP:
                group = self._groups.get(type_.name, "")
                return Scope(group=group, preemptible=type_.preemptible)
            case ErrorScope.ALL:
                return EVERYTHING
            case _:
                assert_never(scope)

    def _length_s(self, cause: HoldCause, error: CloudError, repeats: int) -> float:
        match cause:
            case HoldCause.QUOTA:
                return self._settings.quota_hold_s
            case HoldCause.CAPACITY:
                return doubled_s(self._settings.capacity_hold_s, repeats, _CAPACITY_MOST_S)
            case HoldCause.RATE_LIMIT:
                return rate_limited_s(error, repeats)
            case HoldCause.ERROR | HoldCause.BOOT_FAILURE:
                return doubled_s(_ERROR_FIRST_S, max(0, repeats - _ERRORS_ALIKE + 1), _ERROR_MOST_S)
            case _:
                assert_never(cause)

    def _create_block(self, hold: CreateHold, now: float) -> CreateBlock:
        kind = _KINDS[hold.cause]
        message, until = hold.reason, None
        if now < hold.until:
            until = hold.until
        else:
            message = f"one create is being tried, after: {hold.reason}"
            # A trial is no refusal: nobody need be stopped or shut down for it.
            kind = kind if kind is CreateBlockKind.CAPACITY else CreateBlockKind.OTHER
        topic = f"{hold.cause.value} {hold.error}"
        return self._create_block_in(
            hold.scope, kind=kind, message=message, until=until, topic=topic
        )

    def _create_block_in(
        self, scope: Scope, *, kind: CreateBlockKind, message: str, until: float | None, topic: str
    ) -> CreateBlock:
        covers = frozenset(n for n, t in self._types.items() if self.covers(scope, t))
        return CreateBlock(
            kind=kind,
            message=message,
            until=until,
            covers=covers,
            everywhere=len(covers) == len(self._types),
            topic=topic,
        )


def _is_forgotten(record: _Record, now: float) -> bool:
    """Return whether a hold has been over for so long that it says nothing of today."""
    return now >= record.hold.until + _FORGOTTEN_AFTER_S
