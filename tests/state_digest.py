"""A digest of all that an engine is made of, to see whether anything of it has changed."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import msgspec

from longshore.dispatcher.engine.engine import Engine
from longshore.dispatcher.state.memory_limit import QueuedMemory

_WORDS = (type(None), int, float, str, bytes, Decimal, Fraction, Enum, type, BaseException)


def digest_of(engine: Engine) -> str:
    """Return a digest of an engine: of each attribute of everything that can be reached from it.

    What it takes from outside (tokens, secrets, new containers, dice) is outside of it: whoever
    gives it these knows how often it was asked.
    """
    return _of(engine).digest.hexdigest()


def _of(engine: Engine) -> _Walk:
    pool = engine.pool
    walk = _Walk([pool.new_token, pool.new_secret, pool.dice, engine.new_container])
    walk.see(engine)
    return walk


def shared_by(engine: Engine, other: Engine) -> list[str]:
    """Return the types of what can change and belongs to two engines, which should be none."""
    of_both = _things_of(engine).keys() & (there := _things_of(other)).keys()
    return sorted(type(there[each]).__qualname__ for each in of_both)


def false_values_in(engine: Engine) -> set[str]:
    """Return where a value of an engine's holds something that can change, which none should."""
    values = [each for each in _of(engine).kept if is_value(each)]
    return {where for each in values for where in _changeable(each, type(each).__qualname__)}


def _changeable(thing: object, where: str) -> Iterator[str]:
    if isinstance(thing, tuple | frozenset):
        for each in thing:
            yield from _changeable(each, where)
    elif dataclasses.is_dataclass(thing) and is_value(thing):
        for field in dataclasses.fields(thing):
            yield from _changeable(getattr(thing, field.name), f"{where}.{field.name}")
    elif not isinstance(thing, _WORDS) and not is_value(thing):
        yield where


def _things_of(engine: Engine) -> dict[int, object]:
    walk = _of(engine)
    return {
        id(thing): thing
        for thing in walk.kept
        if not isinstance(thing, frozenset | BuiltinFunctionType)
        and not is_value(thing)
        # A function that refers to nothing is itself a value.
        and (not isinstance(thing, FunctionType) or thing.__closure__)
    }


def is_value(thing: Any) -> bool:
    """Return whether something is of a type whose values are never changed."""
    kind = type(thing)
    if dataclasses.is_dataclass(kind):
        return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined]  # as it is made
    return isinstance(thing, msgspec.Struct) and kind.__struct_config__.frozen


class _Walk:
    def __init__(self, outside: Iterable[object]) -> None:
        self.digest = hashlib.blake2b(digest_size=16)
        self._seen = {id(each): number for number, each in enumerate(outside)}
        # What is made on the way lives until the end, so that no identity is used twice.
        self.kept: list[object] = []
        self._said: dict[int, str] = {}

    def see(self, thing: Any) -> None:
        if isinstance(thing, _WORDS):
            self._say(repr(thing))
        elif isinstance(thing, tuple):
            self._each("(", thing)
        elif is_value(thing):
            # By what it says, not by which it is: equal ones may be one or several.
            self.kept.append(thing)
            said = self._said.get(id(thing))
            if said is None:
                said = self._said[id(thing)] = repr(thing)
            self._say(said)
        elif id(thing) in self._seen:
            self._say(f"#{self._seen[id(thing)]}")
        else:
            self._seen[id(thing)] = len(self._seen)
            self.kept.append(thing)
            self._say(type(thing).__qualname__)
            self._see_new(thing)

    def _see_new(self, thing: Any) -> None:
        if isinstance(thing, set | frozenset):
            self._each("{", sorted(thing, key=repr))
        elif isinstance(thing, list | deque):
            self._each("[", thing)
        elif isinstance(thing, MethodType):
            self._say(thing.__func__.__qualname__)
            self.see(thing.__self__)
        elif isinstance(thing, FunctionType):
            self._say(thing.__qualname__)
            self._each("<", [cell.cell_contents for cell in thing.__closure__ or ()])
        elif isinstance(thing, functools.partial):
            self._each("<", [thing.func, *thing.args, *thing.keywords.values()])
        elif isinstance(thing, BuiltinFunctionType):
            self._say(thing.__qualname__)
        else:
            if isinstance(thing, dict):
                self._each("{", [part for pair in thing.items() for part in pair])
            self._attributes(thing)

    def _attributes(self, thing: Any) -> None:
        slots = [slot for kind in type(thing).__mro__ for slot in getattr(kind, "__slots__", ())]
        names = [name for name in slots if hasattr(thing, name)]
        if isinstance(thing, QueuedMemory):
            # It knows specifications by their identity, which is another in each run.
            names = ["total_bytes"]
            self._each("{", sorted(thing._users.values()))
        else:
            names += getattr(thing, "__dict__", {})
        for name in sorted(set(names)):
            self._say(name)
            self.see(getattr(thing, name))

    def _each(self, bracket: str, things: Iterable[Any]) -> None:
        self._say(bracket)
        for each in things:
            self.see(each)
        self._say("/")

    def _say(self, word: str) -> None:
        self.digest.update(f"{word}\n".encode())
