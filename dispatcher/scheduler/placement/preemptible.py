"""Preemptible types that cannot be had, or whose use is lost: what that means for who waits; pure.

Where the cloud has had none of them for as long as a class waits for such instances, it may run on
others, whatever these cost more. Whenever a shortage is over, by its hold, one create is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from longshore.dispatcher.domain.containers import Constraints, Preemptible
from longshore.dispatcher.domain.feasibility import price_order
from longshore.drivers.interface import InstanceType

_HALF_LIFE_S = 3600.0
_LEAST_USED_S = 300.0
_STEP = Decimal("0.05")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scarce:
    """The preemptible types, by name, that could not be had for as long as anybody waits for them.

    Of those that are `tried` one may be created now, to see; of those that are `held` none.
    """

    held: frozenset[str] = frozenset()
    tried: frozenset[str] = frozenset()

    def __contains__(self, name: str) -> bool:
        return name in self.held or name in self.tried


ENOUGH = Scarce()


def instead_of_scarce(
    allowed: Sequence[InstanceType],
    fitting: Sequence[InstanceType],
    constraints: Constraints,
    *,
    scarce: Scarce,
    has_room: Callable[[InstanceType], bool],
    within: Callable[[Sequence[InstanceType]], tuple[InstanceType, ...]],
    as_new: Callable[[InstanceType], InstanceType],
) -> tuple[InstanceType, ...]:
    """Return what a class may run on where all that is preemptible of `allowed` is scarce.

    That is what of the types which fit, and are not preemptible, is `within` the price rule, with
    those that may be tried; else it is `allowed`. Whoever wants nothing else waits on.
    """
    if scarce == ENOUGH or constraints.preemptible is not Preemptible.ALLOWED:
        return tuple(allowed)
    expected_launches = [type_ for type_ in allowed if type_.preemptible and has_room(type_)]
    lasting = within([type_ for type_ in fitting if not type_.preemptible])
    if (
        not expected_launches
        or not lasting
        or any(type_.name not in scarce for type_ in expected_launches)
    ):
        return tuple(allowed)
    tried = [type_ for type_ in expected_launches if type_.name in scarce.tried]
    return tuple(sorted([*tried, *lasting], key=lambda type_: price_order(as_new(type_))))


@dataclass(slots=True)
class _Use:
    """Seconds for which attempts ran on a type, and of these those that were lost; as of `at`."""

    at: float
    used_s: float = 0.0
    lost_s: float = 0.0

    def decay(self, now: float) -> None:
        """Let what is past count less, by half for each half-life."""
        left = 0.5 ** (max(0.0, now - self.at) / _HALF_LIFE_S)
        self.used_s *= left
        self.lost_s *= left
        self.at = max(self.at, now)


@dataclass(slots=True)
class Waste:
    """How much of the use of each preemptible type was lost since the cloud took instances back.

    What is past counts less and less, so that a type which nobody buys any more is tried again. It
    is kept in memory only: a new process begins without.
    """

    _uses: dict[str, _Use] = field(default_factory=dict)

    def ran(self, type_name: str, seconds: float, *, reclaimed: bool, now: float) -> None:
        """Take in an attempt that has ended, and for how long it ran."""
        use = self._uses.setdefault(type_name, _Use(at=now))
        use.decay(now)
        use.used_s += seconds
        use.lost_s += seconds if reclaimed else 0.0

    def share(self, type_name: str, now: float) -> Decimal:
        """Return which share of the use of a type was lost, from 0 to 1, in steps of a twentieth.

        Where it was used little lately that is of five minutes. In steps, so that not every attempt
        makes a change.
        """
        use = self._uses.get(type_name)
        if use is None or not use.lost_s:
            return Decimal(0)
        use.decay(now)
        share = use.lost_s / max(_LEAST_USED_S, use.used_s)
        return int(Decimal(share) / _STEP) * _STEP
