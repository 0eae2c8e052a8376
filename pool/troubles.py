"""What of the cloud's has failed, and since when, until it succeeds: for people, nothing else.

A hold (`pool.holds`) is over between two tries, and decides; a trouble lasts from the first failure
to a success, and decides nothing. Pure: `now` comes in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudAuthError,
    CloudError,
    QuotaError,
    RateLimitError,
)
from longshore.pool.backoff import sentence

_LASTING = 3
"""From so much weight on it is no chance; what each failure weighs is `_weight`."""


class TroubleKind(Enum):
    """What the latest failure of a row was."""

    REFUSED = "refused"
    """The cloud does not take our credentials."""
    DOUBT = "doubt"
    """Nobody knows whether it happened."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Calls of one sort that failed one after the other, and none of which succeeded."""

    kind: TroubleKind
    #: When the first of these calls began.
    began_at: float
    #: When its failure was heard.
    since: float
    #: When the failure of the latest was heard.
    latest_at: float
    #: What the latest said.
    reason: str
    #: The instance type whose creates alone fail, "" where it is all of them.
    type_name: str = ""


@dataclass(slots=True, kw_only=True)
class _Row:
    """The failed creates of one type; `others_work` says that another's have succeeded since."""

    trouble: Trouble
    weight: int
    others_work: bool = False


class CreateTroubles:
    """The creates that fail, by type; one that succeeds ends what was told of its type."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}

    def failed(self, type_name: str, error: CloudError, *, began_at: float, now: float) -> None:
        """Take in the failure of a create, begun at `began_at`.

        Those that were under way together count once. Where the cloud lacks room, or a limit is
        reached, nothing is wrong: those who wait are told. That the credentials are taken is known
        then.
        """
        match error:
            case RateLimitError():
                return
            case QuotaError() | CapacityError():
                self._drop_refusals(began_at)
                return
            case _:
                pass
        kind = _kind_of(error)
        row = self._rows.get(type_name)
        if row is None:
            trouble = Trouble(
                kind=kind,
                began_at=began_at,
                since=now,
                latest_at=now,
                reason=sentence(error),
                type_name=type_name,
            )
            self._rows[type_name] = _Row(trouble=trouble, weight=_weight(kind))
            return
        if began_at > row.trouble.latest_at:
            row.weight += _weight(kind)
        row.trouble = replace(row.trouble, kind=kind, latest_at=now, reason=sentence(error))

    def succeeded(self, type_name: str, *, began_at: float) -> None:
        """Take in that a create, begun at `began_at`, made an instance.

        What of other types was told until now may have been wrong with all of them: it counts anew.
        """
        self._drop_refusals(began_at)
        own = self._rows.get(type_name)
        if own is not None and began_at >= own.trouble.began_at:
            del self._rows[type_name]
        for row in self._rows.values():
            if not row.others_work and began_at >= row.trouble.began_at:
                row.others_work = True
                row.weight = 0

    def told(self) -> list[Trouble]:
        """Return what lasts: first what is wrong with all creates, then with those of one type."""
        common = [row for row in self._rows.values() if not row.others_work]
        found = []
        if common and sum(row.weight for row in common) >= _LASTING:
            latest = max(common, key=lambda row: row.trouble.latest_at).trouble
            since = min(row.trouble.since for row in common)
            found.append(replace(latest, since=since, type_name=""))
        alone = [row for row in self._rows.values() if row.others_work and row.weight >= _LASTING]
        return found + sorted((row.trouble for row in alone), key=lambda each: each.type_name)

    def _drop_refusals(self, began_at: float) -> None:
        """Forget that credentials were refused: a call begun at `began_at` was let in."""
        for name, row in list(self._rows.items()):
            if row.trouble.kind is TroubleKind.REFUSED and began_at >= row.trouble.began_at:
                del self._rows[name]


def after(before: Trouble | None, error: CloudError, now: float) -> Trouble:
    """Return the trouble of calls that are made one at a time, after one more that failed."""
    since = now if before is None else before.since
    return Trouble(
        kind=_kind_of(error), began_at=since, since=since, latest_at=now, reason=sentence(error)
    )


def _kind_of(error: CloudError) -> TroubleKind:
    """Return what sort of failure an error is."""
    match error:
        case CloudAuthError():
            return TroubleKind.REFUSED
        case AmbiguousResult():
            return TroubleKind.DOUBT
        case _:
            return TroubleKind.FAILED


def _weight(kind: TroubleKind) -> int:
    """Return what a failure counts: credentials do not mend themselves, one doubt may be chance."""
    match kind:
        case TroubleKind.REFUSED:
            return _LASTING
        case TroubleKind.DOUBT:
            return 2
        case TroubleKind.FAILED:
            return 1
        case _:
            assert_never(kind)
