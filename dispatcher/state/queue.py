"""The queue: waiting containers by request class, in priority order within each.

A request class is all containers with equal resources and constraints, so that the planner's cost
does not grow with the number of containers that wait.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, islice

from longshore.dispatcher.domain.containers import EVICTED, INTERRUPTED, Constraints, Container
from longshore.dispatcher.domain.feasibility import need
from longshore.dispatcher.state.restarts import avoided
from longshore.dispatcher.state.spend_limits import SpendSubjects
from longshore.drivers.interface import InstanceType, Resources

# --------------------------------------------------------------------------------------------------
# A sorted sequence that stays fast at a million entries: add, remove, count and look by position.
#
# Entries are kept in chunks of a bounded length, so that no change moves more than one chunk.

Order = tuple[int, int]
"""What containers of a class are sorted by: the negative priority, then the place in arrival."""

_CHUNK = 1024


class SortedIndex:
    """Pairs of an order and an id, sorted; no two are equal."""

    def __init__(self) -> None:
        self._chunks: list[list[tuple[Order, str]]] = []
        self._starts: list[int] | None = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def copy(self) -> SortedIndex:
        """Return a copy."""
        copied = SortedIndex()
        copied._chunks = [chunk.copy() for chunk in self._chunks]
        copied._starts = None
        copied._length = self._length
        return copied

    def add(self, order: Order, container_id: str) -> None:
        """Put an entry in its place; it must not be there yet."""
        self._length += 1
        entry = (order, container_id)
        if not self._chunks:
            self._chunks.append([entry])
            self._starts = None
            return
        index = self._chunk_of(entry)
        chunk = self._chunks[index]
        insort(chunk, entry)
        if len(chunk) > 2 * _CHUNK:
            self._chunks[index : index + 1] = [chunk[:_CHUNK], chunk[_CHUNK:]]
        self._starts = None

    def remove(self, order: Order, container_id: str) -> None:
        """Take an entry out; raises ValueError when it is not there."""
        entry = (order, container_id)
        index = self._chunk_of(entry) if self._chunks else 0
        chunk = self._chunks[index] if self._chunks else []
        place = bisect_left(chunk, entry)
        if place == len(chunk) or chunk[place] != entry:
            raise ValueError(f"{container_id} is not in order here")
        del chunk[place]
        if not chunk:
            del self._chunks[index]
        self._length -= 1
        self._starts = None

    def at(self, position: int) -> tuple[Order, str] | None:
        """Return the entry at a position from 0 on, None past the end."""
        if position >= self._length:
            return None
        if self._chunks and position < len(self._chunks[0]):
            return self._chunks[0][position]
        starts = self._positions()
        index = bisect_left(starts, position + 1) - 1
        return self._chunks[index][position - starts[index]]

    def before(self, order: Order) -> int:
        """Return how many entries come before an order."""
        entry = (order, "")
        if not self._chunks or entry <= self._chunks[0][0]:
            return 0
        index = self._chunk_of(entry)
        return self._positions()[index] + bisect_left(self._chunks[index], entry)

    def span(self, start: int, stop: int) -> Iterator[tuple[Order, str]]:
        """Return the entries from one position to before another, which may be past the end."""
        if start >= min(stop, self._length):
            return
        starts = self._positions()
        index = bisect_left(starts, start + 1) - 1
        left = min(stop, self._length) - start
        skip = start - starts[index]
        while left > 0:
            part = self._chunks[index][skip : skip + left]
            yield from islice(part, left)
            left -= len(part)
            skip, index = 0, index + 1

    def following(self, entry: tuple[Order, str] | None, most: int) -> list[tuple[Order, str]]:
        """Return at most so many entries that come after one, which need not be there any more.

        None is before all of them.
        """
        first = 0 if entry is None or not self._chunks else self._chunk_of(entry)
        chunks = self._chunks[first:]
        skip = 0 if entry is None or not chunks else bisect_right(chunks[0], entry)
        return list(islice(chain.from_iterable(chunks), skip, skip + most))

    def _chunk_of(self, entry: tuple[Order, str]) -> int:
        """Return the chunk in which an entry is or belongs."""
        low, high = 0, len(self._chunks) - 1
        while low < high:
            middle = (low + high) // 2
            if self._chunks[middle][-1] < entry:
                low = middle + 1
            else:
                high = middle
        return low

    def _positions(self) -> list[int]:
        """Return the position of each chunk's first entry, counted anew after a change."""
        if self._starts is None:
            self._starts = [0, *accumulate(len(chunk) for chunk in self._chunks[:-1])]
        return self._starts


# ---- the queue: waiting containers by request class, in priority order within each ---------------

SET_APART_MOST = 200
"""How many classes there may be of containers that avoid instances; more avoid none."""
_EVICTED_FIRST = 2**62
"""More than there ever are sequence numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassKey:
    """What makes containers equal to the planner."""

    resources: Resources
    constraints: Constraints
    #: The dimensions of `resources` for which an instance type may have defaults of its own, ()
    #: where none has any.
    unnamed: tuple[str, ...] = ()
    supervisor: bool = False
    #: Whose limits of spending count, () where there are none but the cluster's, so that such
    #: limits alone make classes of one kind many.
    account: SpendSubjects = ()
    #: Whether the cloud took so many instances back that others are to be had for them.
    lasting: bool = False
    #: The instances, sorted, where they were lost or could not run: others are tried first.
    avoided: tuple[str, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Looked up all the time, by every pass.
        who = (self.supervisor, self.account, self.lasting, self.avoided)
        object.__setattr__(
            self, "_hash", hash((self.resources, self.constraints, self.unnamed, who))
        )

    def __hash__(self) -> int:
        return self._hash


class Versions:
    """Numbers, each greater than all before."""

    def __init__(self) -> None:
        self._last = 0

    def next(self) -> int:
        """Return the next one."""
        self._last += 1
        return self._last


class RequestClass:
    """The waiting containers of one class; the first is the next to get a place."""

    def __init__(
        self, key: ClassKey, fitting: tuple[InstanceType, ...], versions: Versions
    ) -> None:
        """Make a class of nobody yet, for which all types that fit are allowed."""
        self.key = key
        #: The types that can run them, cheapest first.
        self.fitting = fitting
        #: Those of them that the price rule allows now.
        self.types: tuple[InstanceType, ...] = ()
        #: Another one after every change of who waits here, or in which order, and never the same
        #: for two classes.
        self.version = versions.next()
        self._versions = versions
        self._needs: dict[str, Resources] = {}
        self.allow(fitting)
        self._orders: dict[str, Order] = {}
        self._entries = SortedIndex()

    def __len__(self) -> int:
        return len(self._orders)

    def allow(self, types: tuple[InstanceType, ...]) -> bool:
        """Set which of the types that fit its containers may use; return whether that is a change.

        What they ask for on a type stays the same.
        """
        if types == self.types:
            return False
        self.types = types
        self._needs = {type_.name: self._asked_of(type_) for type_ in types}
        return True

    def _asked_of(self, type_: InstanceType) -> Resources:
        return need(type_, self.key.resources, self.key.unnamed)

    def need(self, type_: InstanceType) -> Resources:
        """Return what one of its containers asks for on an instance of a type that fits."""
        known = self._needs.get(type_.name)
        return self._asked_of(type_) if known is None else known

    @property
    def needs(self) -> dict[str, Resources]:
        """Return what one of its containers asks for, by the name of each of its types; no copy."""
        return self._needs

    def add(self, container: Container) -> None:
        """Let a container wait, or give one that waits its new place."""
        order = (-container.priority, _rank(container))
        known = self._orders.get(container.id)
        if known == order:
            return
        if known is not None:
            self._entries.remove(known, container.id)
        self._orders[container.id] = order
        self._entries.add(order, container.id)
        self.version = self._versions.next()

    def discard(self, container_id: str) -> None:
        """Let a container wait no more; not waiting is no error."""
        order = self._orders.pop(container_id, None)
        if order is not None:
            self._entries.remove(order, container_id)
            self.version = self._versions.next()

    def at(self, position: int) -> tuple[Order, str] | None:
        """Return the order and the id of the container at a position from 0, None past the end."""
        return self._entries.at(position)

    def span(self, start: int, stop: int) -> Iterator[tuple[Order, str]]:
        """Return the containers from one position to before another; do not change it meanwhile."""
        return self._entries.span(start, stop)

    def first(self, most: int) -> list[str]:
        """Return the ids of the first that wait, at most so many."""
        return [container_id for _, container_id in self._entries.following(None, most)]

    def before(self, order: Order) -> int:
        """Return how many of its containers come before an order."""
        return self._entries.before(order)

    def order_of(self, container_id: str) -> Order:
        """Return a waiting container's order; raises KeyError when it does not wait here."""
        return self._orders[container_id]


def all_of(_key: ClassKey, fitting: tuple[InstanceType, ...]) -> tuple[InstanceType, ...]:
    """Return all types that fit, whatever they cost."""
    return fitting


def _kind_of(key: ClassKey) -> ClassKey:
    return replace(key, avoided=()) if key.avoided else key


def _rank(container: Container) -> int:
    """Return a container's place among those of its priority: who was evicted goes first again."""
    return container.sequence - (_EVICTED_FIRST if _was_evicted(container) else 0)


def _was_evicted(container: Container) -> bool:
    """Return whether somebody else needed the room that a container's latest attempt had."""
    last = container.attempts[-1] if container.attempts else None
    reason = last.reason if last is not None else None
    return reason is not None and reason.code in (EVICTED, INTERRUPTED)


class Queue:
    """All waiting containers, by class."""

    def __init__(
        self,
        fitting: Callable[[ClassKey], tuple[InstanceType, ...]],
        account_of: Callable[[Container], SpendSubjects] = lambda _: (),
        allowed: Callable[[ClassKey, tuple[InstanceType, ...]], tuple[InstanceType, ...]] = all_of,
        is_lasting: Callable[[Container], bool] = lambda _: False,
    ) -> None:
        """Make an empty queue; `account_of` tells whose limits of spending a container has.

        `is_lasting` says which containers are to have instances that the cloud does not take back.
        `fitting` tells, the same until a price changes (see `refit`), which types can run a class,
        cheapest first; `allowed` which of these it may run on now (see `renew`).
        """
        self._fitting = fitting
        self._allowed = allowed
        self._account_of = account_of
        self._is_lasting = is_lasting
        self._classes: dict[ClassKey, RequestClass] = {}
        # Not the classes: a copy for a trial would have to look at each (see
        # `dispatcher.engine.fork`).
        self._key_of: dict[str, ClassKey] = {}
        self._kinds: dict[ClassKey, int] = {}  # classes by what users say of them
        self._set_apart = 0  # classes that avoid instances
        self._all = SortedIndex()
        self._versions = Versions()

    def __len__(self) -> int:
        return len(self._key_of)

    def __contains__(self, container_id: str) -> bool:
        return container_id in self._key_of

    def add(self, container: Container) -> None:
        """Let a container wait, or give one that waits its new place."""
        key = self.key_of(container)
        request_class = self._classes.get(key)
        if request_class is None:
            request_class = self._classes[key] = self._new_class(key)
            self._count(key, 1)
        if container.id in self._key_of:
            self._all.remove(request_class.order_of(container.id), container.id)
        request_class.add(container)
        self._key_of[container.id] = request_class.key
        self._all.add(request_class.order_of(container.id), container.id)

    def _new_class(self, key: ClassKey) -> RequestClass:
        """Return a class of nobody yet with its types."""
        made = RequestClass(key, self._fitting(key), self._versions)
        made.allow(self._allowed(key, made.fitting))
        return made

    def refit(self) -> None:
        """Ask again which types can run each class, since prices have changed; see `renew`."""
        for each in self._classes.values():
            each.fitting = self._fitting(each.key)

    def renew(self) -> list[RequestClass]:
        """Ask again which types are allowed; return the classes of which others are than before."""
        classes = self._classes.values()
        return [each for each in classes if each.allow(self._allowed(each.key, each.fitting))]

    def key_of(self, container: Container) -> ClassKey:
        """Return the key of the class in which a container waits, or would."""
        spec = container.spec
        return ClassKey(
            resources=spec.resources,
            constraints=spec.constraints,
            unnamed=spec.unnamed,
            supervisor=spec.supervisor,
            account=self._account_of(container),
            lasting=self._is_lasting(container),
            avoided=self._avoided(container),
        )

    def _avoided(self, container: Container) -> tuple[str, ...]:
        """Return the instances that set a container's class apart: where it was lost.

        Nothing, if too many classes are apart already: when a registry is down or many instances
        die, thousands of containers are lost in as many places. No other instance is better then,
        and each pass would go through all these classes.
        """
        if (known := self._key_of.get(container.id)) is not None:
            return known.avoided  # of who waits it stays: it is lost nowhere meanwhile
        return avoided(container) if self._set_apart < SET_APART_MOST else ()

    def discard(self, container_id: str) -> None:
        """Let a container wait no more; not waiting is no error."""
        key = self._key_of.pop(container_id, None)
        if key is None:
            return
        request_class = self._classes[key]
        self._all.remove(request_class.order_of(container_id), container_id)
        request_class.discard(container_id)
        if not request_class:
            del self._classes[key]
            self._count(key, -1)

    def _count(self, key: ClassKey, number: int) -> None:
        kind = _kind_of(key)
        self._kinds[kind] = self._kinds.get(kind, 0) + number
        if not self._kinds[kind]:
            del self._kinds[kind]
        self._set_apart += number if key.avoided else 0

    def class_of(self, container_id: str) -> RequestClass | None:
        """Return the class in which a container waits, None when it does not."""
        key = self._key_of.get(container_id)
        return None if key is None else self._classes[key]

    def class_with(self, key: ClassKey) -> RequestClass | None:
        """Return the class with a key, None when nobody of it waits."""
        return self._classes.get(key)

    def classes(self) -> list[RequestClass]:
        """Return the classes, the one with the first container first."""
        keyed = [(first, c) for c in self._classes.values() if (first := c.at(0)) is not None]
        keyed.sort(key=lambda pair: pair[0])
        return [request_class for _, request_class in keyed]

    def following(self, entry: tuple[Order, str] | None, most: int) -> list[tuple[Order, str]]:
        """Return at most so many of all that wait, in order, that come after one; None: the first.

        An entry is an order and an id; that one need not wait any more.
        """
        return self._all.following(entry, most)

    def ahead_of(self, container_id: str) -> int:
        """Return how many waiting containers come before one; it must wait too."""
        return self._all.before(self._order_of(container_id))

    def _order_of(self, container_id: str) -> Order:
        return self._classes[self._key_of[container_id]].order_of(container_id)

    def ahead_among(self, container_id: str, keys: Iterable[ClassKey]) -> int:
        """Return how many containers of some classes come before one that waits too."""
        order = self._order_of(container_id)
        classes = (self._classes.get(key) for key in keys)
        return sum(request_class.before(order) for request_class in classes if request_class)

    def classes_with(self, keys: AbstractSet[ClassKey]) -> int:
        """Return how many classes there would be if these containers waited too.

        Classes that differ only by where containers were lost count once: users cannot influence
        that.
        """
        return len(self._kinds) + len({_kind_of(key) for key in keys} - self._kinds.keys())
