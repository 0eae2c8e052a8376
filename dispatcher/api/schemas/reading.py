"""Reading what a server answered, as the structs that it was made from.

A server says every field that its version knows, and `required` in its document says so. Who reads
may be newer than the server, or read an event, which leaves out what may be large: a field that is
absent reads as nothing (None where that may be, else an empty text, 0, False or an empty list), or
as what `absent_as` says. What an answer is known by is `NEVER_ABSENT`: without it, it is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec

Answer = TypeVar("Answer")

_ABSENT = "absent"
NEVER_ABSENT = msgspec.Meta(extra={_ABSENT: msgspec.NODEFAULT})
_EMPTY: dict[Any, Any] = {
    str: "",
    bool: False,
    int: 0,
    float: 0.0,
    Decimal: 0,
    tuple: (),
    list: (),
    dict: {},
}


def absent_as(value: object) -> msgspec.Meta:
    """Return what marks a field that reads as `value` where an answer does not say it."""
    return msgspec.Meta(extra={_ABSENT: value})


def read_answer(data: object, kind: type[Answer]) -> Answer:
    """Return `data`, decoded JSON of a server's, as a `kind`, without fields of newer servers.

    Raises `msgspec.ValidationError` for what is no such answer.
    """
    try:
        return msgspec.convert(data, kind, strict=False)
    except msgspec.ValidationError:
        # Seldom: an answer of a server of this version lacks nothing, and thousands are listed.
        return msgspec.convert(_filled(data, kind), kind, strict=False)


def _filled(data: object, kind: Any) -> object:
    """Return `data` with what is absent in it, at every depth, filled in."""
    for each in _members(kind):
        if _is_struct(each) and isinstance(data, dict):
            empty, types = _shape(each)
            told = {key: _filled(value, types.get(key)) for key, value in data.items()}
            # A null that cannot be is as good as nothing.
            known = {k: v for k, v in told.items() if v is not None or empty.get(k) is None}
            return {**empty, **known}
        if get_origin(each) in (tuple, list) and isinstance(data, list | tuple):
            return [_filled(value, get_args(each)[0]) for value in data]
    return data


@cache
def _shape(kind: Any) -> tuple[dict[str, object], dict[str, Any]]:
    """Return what stands for each field of a struct that may be absent, and all fields' types."""
    fields = msgspec.structs.fields(kind)
    stands = {each.name: _stands_for(each.type) for each in fields if each.required}
    empty = {name: value for name, value in stands.items() if value is not msgspec.NODEFAULT}
    return empty, {each.name: each.type for each in fields}


def _stands_for(kind: Any) -> object:
    """Return what stands for a field of a type where it is absent, `NODEFAULT` for nothing."""
    if get_origin(kind) is Annotated:
        for meta in kind.__metadata__:
            if isinstance(meta, msgspec.Meta) and meta.extra and _ABSENT in meta.extra:
                return meta.extra[_ABSENT]
    members = tuple(_members(kind))
    if NoneType in members:
        return None
    first = members[0]
    return _filled({}, first) if _is_struct(first) else _EMPTY[get_origin(first) or first]


def _members(kind: Any) -> Iterator[Any]:
    """Yield the types that a type is one of, without what is said about them."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _members(get_args(kind)[0])
    elif origin in (Union, UnionType):
        for each in get_args(kind):
            yield from _members(each)
    else:
        yield kind


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)
