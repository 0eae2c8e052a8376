"""Turning what strangers wrote into typed values, telling them all that is wrong at once.

`decode_all` decodes at msgspec's speed; only when that fails is the value walked, field by field,
so that every problem gets its path and a sentence with the remedy.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

import msgspec
import msgspec.inspect

from longshore.dispatcher.input.problems import (
    Problems,
    ProblemsFull,
    did_you_mean,
    element,
    member,
    quoted,
)
from longshore.dispatcher.input.quantities import (
    CpuMillis,
    Price,
    Size,
    decode_quantity,
    parse_size,
)
from longshore.dispatcher.input.walk import walk
from longshore.drivers.errors import InvalidRequest

__all__ = [
    "CpuMillis",
    "Price",
    "Size",
    "decode_all",
    "decode_checked",
    "did_you_mean",
    "parse_json",
    "parse_size",
]

T = TypeVar("T")

JSON_DEPTH_MAX = 32
JSON_CONTAINERS_MAX = 300_000
DIGITS_MAX = 40

_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def decode_all(wanted: type[T], value: object, path: str = "") -> T:
    """Return `value` (what a JSON or YAML parser gave) as a `wanted`.

    `path` is put before the path of every problem. Raises `InvalidRequest` with all problems at
    once (at most 100, then a line that says so). Infinite numbers and NaN are problems too.
    """
    problems = Problems()
    try:
        _find_infinite(value, path, problems)
    except ProblemsFull:
        raise InvalidRequest(problems.listed()) from None
    if problems:
        raise InvalidRequest(problems.listed())
    return decode_checked(wanted, value, path)


def decode_checked(wanted: type[T], value: object, path: str = "") -> T:
    """Do as `decode_all` for what `parse_json` returned: its numbers are known to be finite."""
    try:
        return msgspec.convert(value, wanted, strict=True, dec_hook=decode_quantity)
    except (msgspec.ValidationError, OverflowError) as error:
        problems = Problems()
        try:
            walk(msgspec.inspect.type_info(wanted), value, path, problems)
        except ProblemsFull:
            raise InvalidRequest(problems.listed()) from None
        if not problems:
            problems.add(path, str(error))
        raise InvalidRequest(problems.listed()) from None


def _find_infinite(value: object, path: str, problems: Problems) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        problems.add(path, "must be a finite number")
    elif isinstance(value, dict):
        for key, child in value.items():
            _find_infinite(child, member(path, str(key)), problems)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            _find_infinite(child, element(path, index), problems)


def parse_json(body: bytes) -> Any:
    """Return what one JSON text means: dicts, lists, text, finite numbers, booleans, None.

    Raises `InvalidRequest`, and nothing else, for text that is not JSON or not UTF-8, a key that
    appears twice in one object, NaN, infinities, numbers of absurd length, unpaired surrogates,
    values nested deeper than 32, and over 300000 lists and objects.
    """
    containers = body.count(b"[") + body.count(b"{")
    if containers > JSON_CONTAINERS_MAX:
        _check_containers(body)
    try:
        value = _DECODER.decode(body.decode("utf-8"))
        if containers > JSON_DEPTH_MAX:
            _check_depth(value)
        if _SURROGATE_ESCAPE.search(body):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        _refuse(f"the JSON is nested too deeply: at most {JSON_DEPTH_MAX} levels are allowed")
    except UnicodeDecodeError as error:
        _refuse(f"the body is not UTF-8 (byte {error.start}): send JSON encoded as UTF-8")
    except UnicodeEncodeError:
        _refuse("the JSON contains half of a surrogate pair (\\ud800 to \\udfff): send whole ones")
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        _refuse(f"the body is not JSON ({error.msg}; {place}): send one JSON value")
    except ValueError as error:
        _refuse(str(error))
    return value


def _refuse(message: str) -> NoReturn:
    raise InvalidRequest([("", message)]) from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {quoted(key)} appears twice in one object: keep one")
            seen.add(key)
    return made


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("the JSON contains a number too large to represent: use a smaller one")
    return number


def _bounded_int(text: str) -> int:
    if len(text) > DIGITS_MAX:
        raise ValueError(f"the JSON contains a number of over {DIGITS_MAX} digits: use a smaller")
    return int(text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"the JSON contains {name}, which is not JSON: use a finite number or null")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_float=_finite_float,
    parse_int=_bounded_int,
    parse_constant=_no_constant,
)


def _check_containers(body: bytes) -> None:
    """Refuse what takes twenty times its size in memory and seconds to parse: "[[],[],[],...".

    Only what looks suspicious comes here: brackets may just as well be inside of text.
    """
    rest = _STRING.sub(b"", body)
    if rest.count(b"[") + rest.count(b"{") > JSON_CONTAINERS_MAX:
        _refuse(f"the JSON has over {JSON_CONTAINERS_MAX} lists and objects: send fewer at a time")


def _check_depth(value: object) -> None:
    level: list[object] = [value]
    for _ in range(JSON_DEPTH_MAX):
        level = [
            child
            for parent in level
            for child in _children(parent)
            if isinstance(child, dict | list)
        ]
        if not level:
            return
    raise RecursionError


def _children(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
