"""Leaves nothing behind: what the conformance kit asked for, and how all of it is destroyed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from longshore.dispatcher.conformance.model import Patience
from longshore.drivers.errors import AmbiguousResult, CloudError, InstanceNotFound
from longshore.drivers.interface import CLUSTER_TAG, TOKEN_TAG, Instance, InstanceSet

CLUSTER_PREFIX = "conformance-"
"""How the cluster tag of everything begins that the kit makes."""

_OF_A_RUN = re.compile(rf"{CLUSTER_PREFIX}[0-9a-f]{{8}}(-other)?")

_LISTINGS_WITHOUT = 2
"""How many listings in a row must show nothing before nothing is there."""


@dataclass(slots=True)
class _Asked:
    """A create call: when it was made, what it returned, and whether it may have made more."""

    at: float
    instances: list[Instance] = field(default_factory=list)
    in_doubt: bool = True


class CreateRecords:
    """Every create call that the kit makes, noted down before it is made; for any thread.

    `clusters` are the cluster tags of this run: whatever carries one of them is ours.
    """

    def __init__(self, *, clusters: tuple[str, ...], clock: Callable[[], float]) -> None:
        self.clusters = clusters
        self.clock = clock
        self._asked: dict[str, _Asked] = {}
        self._gone: set[str] = set()
        self._lock = threading.Lock()

    @contextmanager
    def asking(self, token: str) -> Iterator[None]:
        """Note a create call; it is in doubt until it has returned, or was refused."""
        with self._lock:
            asked = self._asked.setdefault(token, _Asked(at=0.0))
            asked.at, asked.in_doubt = self.clock(), True
        try:
            yield
        except AmbiguousResult:
            raise
        except CloudError:
            asked.in_doubt = False
            raise

    def made(self, token: str, instance: Instance) -> None:
        """Note what a create call returned."""
        with self._lock:
            asked = self._asked[token]
            asked.instances.append(instance)
            asked.in_doubt = False

    def is_ours(self, instance: Instance) -> bool:
        """Return whether an instance carries a tag of this run."""
        return instance.tags.get(CLUSTER_TAG) in self.clusters

    def gone(self, instance_id: str) -> None:
        """Note that an instance was destroyed and has left the listing."""
        self._gone.add(instance_id)

    def returned(self) -> list[Instance]:
        """Return what create calls returned, in the order of the calls, and is not gone."""
        made = [instance for each in self._asked.values() for instance in each.instances]
        return [each for each in made if each.id not in self._gone]

    @property
    def all_refused(self) -> bool:
        """Return whether no create call made anything: each was refused, or there was none."""
        return not any(each.in_doubt or each.instances for each in self._asked.values())

    @property
    def asked(self) -> bool:
        """Return whether there was a create call."""
        return bool(self._asked)

    def seen(self, instance: Instance) -> None:
        """Note that a listing shows an instance: its create call is no longer in doubt."""
        asked = self._asked.get(instance.tags.get(TOKEN_TAG, ""))
        if asked is not None:
            asked.in_doubt = False

    def doubtful_until(self, listing_lag_s: float) -> float:
        """Return until when a listing may yet show what a create call in doubt has made."""
        doubts = [each.at for each in self._asked.values() if each.in_doubt]
        return max(doubts) + listing_lag_s if doubts else 0.0


def sweep(
    instance_set: InstanceSet,
    table: CreateRecords,
    patience: Patience,
    wait: Callable[[float], None],
) -> tuple[str, ...]:
    """Destroy all that carries a tag of this run; return what may be left, a line each.

    Nothing else is touched, whatever the driver says that it created. It is gone when two listings
    in a row show nothing, and none of the create calls in doubt can still come to light. A listing
    that fails is not waited for when every create call was refused.
    """
    problems: dict[str, str] = {}
    shown: dict[str, Instance] = {}
    ever: set[str] = set()
    trouble, without = "", 0
    for instance in table.returned():
        if table.is_ours(instance):
            _destroy(instance, problems)
    deadline = table.clock() + patience.gone_timeout_s
    for pause_s in patience.pauses_s():
        try:
            shown, trouble = _listed(instance_set, table), ""
        except Exception as error:  # noqa: BLE001 - a driver may raise anything; it is told
            trouble = f"{type(error).__name__}: {error}"
        ever |= shown.keys()
        for _, instance in sorted(shown.items()):
            table.seen(instance)
            _destroy(instance, problems)
        doubtful = table.clock() < table.doubtful_until(patience.listing_lag_s)
        without = 0 if shown or trouble or doubtful else without + 1
        over = table.clock() >= deadline and not doubtful
        hopeless = bool(trouble) and not ever and table.asked and table.all_refused
        if without == _LISTINGS_WITHOUT or over or hopeless:
            break
        wait(pause_s)
    lines = [_line(each, problems.get(each, "it is still listed")) for each in sorted(shown)]
    lines += [_line(each, problems[each]) for each in sorted(problems.keys() - ever)]
    for instance in table.returned():
        if not table.is_ours(instance) and instance.id not in ever:
            what = "a create call of ours returned it, and it does not carry our tag"
            lines.append(_line(instance.id, what))
    if trouble:
        lines.append(f"perhaps more, since the listing fails: {trouble}")
    return tuple(dict.fromkeys(lines))


def existing(instance_set: InstanceSet, cluster: str) -> list[tuple[str, str]]:
    """Return (id, cluster) of what carries the tag of `cluster`, or of any run of the kit.

    A cluster of somebody's that merely begins like one of a run is not touched.
    """
    found = {
        (instance.id, of)
        for instance in instance_set.instances({})
        if (of := instance.tags.get(CLUSTER_TAG, "")) == cluster or _OF_A_RUN.fullmatch(of)
    }
    return sorted(found)


def _listed(instance_set: InstanceSet, table: CreateRecords) -> dict[str, Instance]:
    """Return what is ours by id; a driver that lists more than it is asked for is not trusted."""
    shown: dict[str, Instance] = {}
    for cluster in table.clusters:
        for instance in instance_set.instances({CLUSTER_TAG: cluster}):
            if table.is_ours(instance):
                shown[instance.id] = instance
    return shown


def _destroy(instance: Instance, problems: dict[str, str]) -> None:
    """Destroy an instance; why that fails is kept in `problems` until it does not."""
    problems.pop(instance.id, None)
    try:
        instance.destroy()
    except InstanceNotFound:
        return
    except Exception as error:  # noqa: BLE001 - a driver may raise anything; it is told
        problems[instance.id] = f"{type(error).__name__}: {error}"


def _line(instance_id: str, why: str) -> str:
    return f"{instance_id}: {why}"
