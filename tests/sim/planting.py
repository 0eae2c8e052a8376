"""Plants a defect into the running program: a piece of one function's source, replaced."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A defect: in the function `where` ("module:Class.function") `old` is replaced by `new`.

    `guard` says what the code that is broken is there for, `fault` which trouble reaches it. `old`
    must stand in the function's source exactly once. `also` breaks a second guard that would do.
    `long_stalls` is whether only runs reach it in which the store is away for minutes. `test` is
    the node id of the test that must fail for it; where it is None, a seed must.
    """

    name: str
    guard: str
    fault: str
    where: str
    old: str
    new: str
    also: Mutant | None = None
    long_stalls: bool = False
    test: str | None = None


@contextlib.contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Run the program with the defect; afterwards it is as it was."""
    function = _function(mutant.where)
    sound = function.__code__
    second = planted(mutant.also) if mutant.also is not None else contextlib.nullcontext()
    function.__code__ = mutated_code(mutant)
    try:
        with second:
            yield
    finally:
        function.__code__ = sound


def _function(where: str) -> types.FunctionType:
    module_name, _, path = where.partition(":")
    found: object = importlib.import_module(module_name)
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, staticmethod | classmethod):
        found = found.__func__
    if not isinstance(found, types.FunctionType):
        raise TypeError(f"{where} is not a function")
    return found


@cache
def mutated_code(mutant: Mutant) -> types.CodeType:
    """Return the function's code with the defect in it.

    Raises `ValueError` when `old` does not stand in the function exactly once.
    """
    function = _function(mutant.where)
    module = importlib.import_module(mutant.where.partition(":")[0])
    lines, first = inspect.getsourcelines(function)
    source = "".join(lines)
    if source.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: {mutant.old!r} stands {source.count(mutant.old)} times")
    whole = inspect.getsource(module).splitlines(keepends=True)
    whole[first - 1 : first - 1 + len(lines)] = [source.replace(mutant.old, mutant.new)]
    compiled = compile("".join(whole), module.__file__ or "", "exec", dont_inherit=True)
    return _code_of(compiled, function.__qualname__.split("."), first)


def _code_of(code: types.CodeType, path: list[str], first: int) -> types.CodeType:
    """Return the code object at a path of names; the one that begins nearest to line `first`."""
    inner = [c for c in code.co_consts if isinstance(c, types.CodeType) and c.co_name == path[0]]
    nearest = min(inner, key=lambda c: abs(c.co_firstlineno - first))
    return nearest if len(path) == 1 else _code_of(nearest, path[1:], first)
