"""A copy of an engine to try something on; the engine itself stays as it is.

A question such as "what would come of this job?" is answered by doing it to the copy: the events
that a submission makes are handled there, with the very pass that would follow, and what the copy
decided is read off it. No rule of the scheduler knows of that, so none can forget to be undone.

What an engine consists of is of two kinds. *Values* never change (numbers, words, frozen
dataclasses, and tuples and frozen sets of them): the copy shares them, and by far most of what an
engine holds are values, a container with its attempts among them. Everything else is copied: lists,
dictionaries and sets, objects, bound methods, and functions that refer to what is copied. Whether
something holds values only is found out by the types of its contents, without a step of Python's
for each, so that a hundred thousand containers take milliseconds. Each object is copied once, so
whoever shared one shares its copy.

What an engine takes from outside (tokens, secrets, new containers, dice) the copy has of its own,
since to ask for them changes where they come from. What is only counted or remembered for people,
and decides nothing, begins anew.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from itertools import chain, compress
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType, NoneType
from typing import Any

import msgspec

from longshore.dispatcher.domain.messages import Change, Commit, Event, Woken
from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.scheduler.system.model import SystemPlan
from longshore.dispatcher.state.containers import ContainerTable, WaitingInProject
from longshore.dispatcher.state.history import History
from longshore.dispatcher.state.memory_limit import QueuedMemory
from longshore.dispatcher.state.queue import Queue, RequestClass, SortedIndex
from longshore.drivers.errors import BugError
from longshore.pool.statistics import Statistics

_OF_VALUES: Mapping[type, tuple[str, ...]] = {
    ContainerTable: ("containers",),
    Queue: ("_key_of",),
    QueuedMemory: ("_users",),
    RequestClass: ("_orders",),
    WaitingInProject: ("since",),
}
"""Attributes with an entry for each container that waits, which by their type are values only.

To look at each of these would take longer than all the rest.
"""

AFTER_ALL = 2**61
"""The first sequence number of what is only tried: it comes after all that there is."""


def trial_of(engine: Engine) -> Engine:
    """Return a copy of an engine, to which anything may be done.

    What it commands is for nobody. Raises `BugError` for something in the engine of which it is
    not known how to copy it.
    """
    pool, names = engine.pool, _Names()
    instead = (
        (pool.new_token, names.token),
        (pool.new_secret, names.secret),
        (pool.dice, names.dice),
        (engine.new_container, names.container),
        (pool.statistics, Statistics()),
        (engine.scheduling.history, History()),
    )
    copied = _Copies(instead).of(engine)
    if not isinstance(copied, Engine):
        raise BugError("the copy of an engine is none")
    return copied


class EngineFork:
    """A copy of an engine, for who asks what would come of something; `view` reads it.

    It changes by what is done to it here, and the engine never.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.view = EngineView(engine)

    @classmethod
    def of(cls, engine: Engine) -> EngineFork:
        """Make one of an engine; raises as `trial_of`."""
        return cls(trial_of(engine))

    def fork(self) -> EngineFork:
        """Return a copy of this one, as it is by now."""
        return EngineFork.of(self._engine)

    def handle(self, event: Event, now: float) -> Sequence[Change]:
        """Do what an event brings about; return the changes that would be committed."""
        commands = self._engine.handle(event, now)
        commits = (command for command in commands if isinstance(command, Commit))
        return [change for commit in commits for change in commit.changes]

    def is_due(self, now: float) -> bool:
        """Return whether the engine would be woken at this moment."""
        due = self._engine.next_wakeup(now)
        return due is not None and due <= now

    def plan(self, now: float) -> None:
        """Make the pass that would be made though nothing has happened."""
        scheduling = self._engine.scheduling
        passes = scheduling.passes
        self.handle(Woken(), now)
        due = scheduling.next_pass(wanted=True)
        if scheduling.passes == passes and due is not None and due <= now:
            scheduling.run(now)

    def follow_system_plans(self) -> Sequence[SystemPlan]:
        """Return what each pass from now on decides for per-instance jobs; it grows with them."""
        decided: list[SystemPlan] = []
        self._engine.per_instance.tell = decided.append
        return decided


class _Names:
    """What a trial takes from outside instead of the engine's own; the same in each trial."""

    def __init__(self) -> None:
        self._tokens = 0
        self._containers = 0

    def token(self) -> str:
        self._tokens += 1
        return f"trial-{self._tokens:06}"

    def secret(self) -> str:
        return "new"

    def dice(self) -> float:
        return 0.5

    def container(self) -> tuple[str, int]:
        self._containers += 1
        return f"c-new-{self._containers:06}", AFTER_ALL + self._containers


class _Copies:
    """Copies what hangs together, each thing once; `instead` pairs things with replacements."""

    def __init__(self, instead: Iterable[tuple[object, object]]) -> None:
        # By identity: all that is copied is reachable from what is, and lives as long as that.
        self._made: dict[int, Any] = {}
        for old, new in instead:
            self._made[id(old)] = new

    def of(self, thing: Any) -> Any:
        """Return a value itself, and of anything else its copy."""
        kind: type = type(thing)
        if _is_value(kind):
            return thing
        known = self._made.get(id(thing))
        return self._copied(thing, kind) if known is None else known

    def _copied(self, thing: Any, kind: type) -> Any:  # noqa: PLR0911 - a table
        if issubclass(kind, dict):
            return self._mapping(thing, kind)
        if kind is SortedIndex:
            return self._keep(thing, thing.copy())
        if kind in (list, deque):
            return self._sequence(thing)
        if kind is set:
            _expect_values(thing, "a set")
            return self._keep(thing, set(thing))
        if issubclass(kind, tuple):
            return thing if _are_values(thing) else kind(map(self.of, thing))
        if kind is MethodType:
            return self._keep(thing, MethodType(thing.__func__, self.of(thing.__self__)))
        if kind is FunctionType:
            return self._function(thing)
        if kind is partial:
            return partial(self.of(thing.func), *map(self.of, thing.args), **thing.keywords)
        if kind is BuiltinFunctionType and isinstance(thing.__self__, ModuleType):
            return thing
        return self._object(thing, kind)

    def _keep(self, thing: Any, copied: Any) -> Any:
        self._made[id(thing)] = copied
        return copied

    def _shallow(self, thing: Any) -> Any:
        known = self._made.get(id(thing))
        return self._keep(thing, thing.copy()) if known is None else known

    def _mapping(self, thing: Any, kind: Any) -> Any:
        if kind.__new__ is not dict.__new__:
            raise BugError(f"it is not known how to copy a {kind.__qualname__} for a trial")
        _expect_values(thing, "the keys of a mapping")
        has_values = _are_values(thing.values())
        if has_values and kind is dict:
            # Faster than to enter each anew, also where some have been taken out.
            return self._keep(thing, thing.copy())
        copied = self._keep(thing, kind.__new__(kind))
        if has_values:
            dict.update(copied, thing)
        else:
            # Often many keys lead to the same few things.
            values = thing.values()
            each_once = dict(zip(map(id, values), values, strict=True))
            copies = {identity: self.of(each) for identity, each in each_once.items()}
            dict.update(copied, zip(thing, map(copies.__getitem__, map(id, values)), strict=True))
        if kind not in (dict, Counter):
            self._fill(thing, copied, kind)
        return copied

    def _sequence(self, thing: Any) -> Any:
        copied = self._keep(thing, thing.copy())
        if not _are_values(thing):
            for index, each in enumerate(thing):
                copied[index] = self.of(each)
        return copied

    def _function(self, thing: FunctionType) -> Any:
        if thing.__closure__ is None:
            return thing
        cells = tuple(CellType() for _ in thing.__closure__)
        copied = FunctionType(
            thing.__code__, thing.__globals__, thing.__name__, thing.__defaults__, cells
        )
        copied.__kwdefaults__ = thing.__kwdefaults__
        self._keep(thing, copied)
        for cell, own in zip(thing.__closure__, cells, strict=True):
            own.cell_contents = self.of(cell.cell_contents)
        return copied

    def _object(self, thing: Any, kind: Any) -> Any:
        is_of_ours = kind.__module__.partition(".")[0] != "builtins"
        if kind.__new__ is not object.__new__ or not is_of_ours:
            raise BugError(f"it is not known how to copy a {kind.__qualname__} for a trial")
        return self._fill(thing, self._keep(thing, kind.__new__(kind)), kind)

    def _fill(self, thing: Any, copied: Any, kind: type) -> Any:
        """Give a copy the attributes of what it is a copy of."""
        of = self.of
        for name in _slots_of(kind):
            try:
                value = getattr(thing, name)
            except AttributeError:
                continue
            setattr(copied, name, of(value))
        own = getattr(thing, "__dict__", None)
        if own is not None:
            known = {name: self._shallow(own[name]) for name in _OF_VALUES.get(kind, ())}
            rest = {name: of(value) for name, value in own.items() if name not in known}
            copied.__dict__.update(known | rest)
        return copied


@cache
def _is_value(kind: type) -> bool:
    """Return whether what is of a type never changes, whatever it holds."""
    if is_dataclass(kind):
        return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]  # as it is made
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_config__.frozen
    return issubclass(
        kind,
        (NoneType, int, float, str, bytes, Decimal, Fraction, Enum, frozenset, type, BaseException),
    )


def _are_values(things: Collection[Any]) -> bool:
    """Return whether all of these are values, or tuples of values, of tuples of them, and so on.

    A loop of Python's over each of them would take most of the time of a copy.
    """
    while others := {kind for kind in set(map(type, things)) if not _is_value(kind)}:
        if not all(issubclass(kind, tuple) for kind in others):
            return False
        tuples = compress(things, map(others.__contains__, map(type, things)))
        things = list(chain.from_iterable(tuples))
    return True


def _expect_values(things: Collection[Any], what: str) -> None:
    if things and not _are_values(things):
        raise BugError(f"{what} can change, and cannot be copied for a trial")


@cache
def _slots_of(kind: type) -> tuple[str, ...]:
    """Return the names of a type's slots, those of its bases included."""
    found: list[str] = []
    for each in kind.__mro__:
        slots = each.__dict__.get("__slots__", ())
        found += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in found if name not in ("__dict__", "__weakref__"))
