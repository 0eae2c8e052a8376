"""Walking a value that did not decode, to name everything in it that is wrong.

Only failures come here, so it is written for its sentences, not for speed.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import inspect

from longshore.dispatcher.input.problems import (
    Problems,
    ProblemsFull,
    described,
    element,
    listing,
    member,
    quoted,
)
from longshore.dispatcher.input.quantities import decode_quantity


def walk(info: inspect.Type, value: Any, path: str, problems: Problems) -> None:
    """Add every problem of `value`, which should be what `info` tells, to `problems`.

    Raises `ProblemsFull` when there are too many to be of use.
    """
    if isinstance(info, inspect.Metadata):
        if is_secret(info):
            _walk_secret(info, value, path, problems)
        elif choices := (info.extra or {}).get("choices"):
            _walk_choice(list(choices), value, path, problems)
        else:
            walk(info.type, value, path, problems)
        return
    walker: Callable[..., None] = _WALKERS.get(type(info), _walk_other)
    walker(info, value, path, problems)


def is_secret(info: inspect.Type) -> bool:
    """Return whether a value of this type is never shown (`drivers.interface.SECRET`)."""
    return isinstance(info, inspect.Metadata) and (
        bool((info.extra or {}).get("secret")) or is_secret(info.type)
    )


def _walk_secret(info: inspect.Metadata, value: Any, path: str, problems: Problems) -> None:
    """Say what is wrong with a secret, but not what it is, even if it is a number."""
    for place, what in _outcome(info.type, value, path):
        wanted, cut, rest = what.partition(", not ")
        hint = ": put it in quotes" if rest.endswith(": put it in quotes") else ""
        told = wanted if cut else "is missing or invalid"
        problems.add(place, f"{told}{hint} (its present value is a secret, and is not shown)")


def _walk_struct(info: inspect.StructType, value: Any, path: str, problems: Problems) -> None:
    if not isinstance(value, dict):
        problems.add(path, f"must be an object, not {described(value)}")
        return
    before = len(problems)
    fields = {field.encode_name: field for field in info.fields}
    for key, child in value.items():
        if not isinstance(key, str):
            problems.add(path, f"has a key that is {described(key)}: keys must be text, quote it")
        elif key in fields:
            so_far = len(problems)
            walk(fields[key].type, child, member(path, key), problems)
            problems.show(so_far, member(path, key), _example(info, key))
        elif key in getattr(info.cls, "fields_of_later_versions", ()):
            problems.add(member(path, key), "is not supported by this server yet: leave it out")
        elif info.forbid_unknown_fields and key != info.tag_field:
            problems.add(member(path, key), f"is not known: {_hint(info, key, problems)}")
    for name, field in fields.items():
        if field.required and name not in value:
            problems.add(member(path, name), "is missing: add it")
    if len(problems) == before:
        _walk_other(info, value, path, problems)


def _hint(info: inspect.StructType, key: str, problems: Problems) -> str:
    """Return what may have been meant by a key that is not known."""
    words: Mapping[str, str] = getattr(info.cls, "words_of_others", {})
    if key in words:
        return f"here it is called {words[key]}"
    advice: Mapping[str, str] = getattr(info.cls, "advice_on_words", {})
    if key in advice:
        return advice[key]
    return problems.hint(key, [field.encode_name for field in info.fields])


def _example(info: inspect.StructType, key: str) -> str:
    """Return how the field `key` is written, "" where no example is needed."""
    examples: Mapping[str, str] = getattr(info.cls, "examples", {})
    return examples.get(key, "")


def _walk_dict(info: inspect.DictType, value: Any, path: str, problems: Problems) -> None:
    if not isinstance(value, dict):
        problems.add(path, f"must be an object, not {described(value)}")
        return
    _check_length(info, len(value), "entries", path, problems)
    for key, child in value.items():
        if isinstance(info.key_type, inspect.StrType) and not isinstance(key, str):
            problems.add(path, f"has a key that is {described(key)}: keys must be text, quote it")
            continue
        place = member(path, str(key))
        walk(info.key_type, key, place, problems)
        walk(info.value_type, child, place, problems)


def _walk_list(
    info: inspect.ListType | inspect.SetType | inspect.FrozenSetType | inspect.VarTupleType,
    value: Any,
    path: str,
    problems: Problems,
) -> None:
    if not isinstance(value, list | tuple):
        problems.add(path, f"must be a list, not {described(value)}")
        return
    _check_length(info, len(value), "entries", path, problems)
    for index, child in enumerate(value):
        walk(info.item_type, child, element(path, index), problems)


def _walk_str(info: inspect.StrType, value: Any, path: str, problems: Problems) -> None:
    if not isinstance(value, str):
        hint = ": put it in quotes" if isinstance(value, bool | int | float) else ""
        problems.add(path, f"must be text, not {described(value)}{hint}")
        return
    _check_length(info, len(value), "characters", path, problems)
    if info.pattern is not None:
        _walk_other(info, value, path, problems)


def _walk_int(info: inspect.IntType, value: Any, path: str, problems: Problems) -> None:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        problems.add(path, f"must be a whole number, not {described(value)}")
    else:
        _check_range(info, value, path, problems)


def _walk_float(info: inspect.FloatType, value: Any, path: str, problems: Problems) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        problems.add(path, f"must be a number, not {described(value)}")
    else:
        _check_range(info, value, path, problems)


#: What YAML 1.1 and people take for truth values.
_TRUTHS = {"yes": "true", "y": "true", "on": "true", "no": "false", "n": "false", "off": "false"}


def _walk_bool(_info: inspect.BoolType, value: Any, path: str, problems: Problems) -> None:
    if not isinstance(value, bool):
        meant = _TRUTHS.get(value.lower()) if isinstance(value, str) else None
        hint = f": write {meant}" if meant else ""
        problems.add(path, f"must be true or false, not {described(value)}{hint}")


def _walk_none(_info: inspect.NoneType, value: Any, path: str, problems: Problems) -> None:
    if value is not None:
        problems.add(path, f"must be null, not {described(value)}")


def _walk_enum(info: inspect.EnumType, value: Any, path: str, problems: Problems) -> None:
    _walk_choice([choice.value for choice in info.cls], value, path, problems)


def _walk_literal(info: inspect.LiteralType, value: Any, path: str, problems: Problems) -> None:
    _walk_choice(list(info.values), value, path, problems)


def _walk_choice(choices: list[Any], value: Any, path: str, problems: Problems) -> None:
    if isinstance(value, int | str) and not isinstance(value, bool) and value in choices:
        return
    shown = quoted(value) if isinstance(value, str) else described(value)
    problems.add(path, f"must be one of {listing(map(str, choices))}, not {shown}")


def _walk_union(info: inspect.UnionType, value: Any, path: str, problems: Problems) -> None:
    if value is None and inspect.NoneType() in info.types:
        return
    others = [option for option in info.types if not isinstance(option, inspect.NoneType)]
    if isinstance(value, dict):
        tagged = [option for option in others if isinstance(option, inspect.StructType)]
        if len(tagged) > 1:
            _walk_tagged(tagged, value, path, problems)
            return
    outcomes = [_outcome(option, value, path) for option in others]
    nearest = min(outcomes, key=lambda found: (_wrong_kind(found, path) is not None, len(found)))
    wanted = [kind for found in outcomes if (kind := _wrong_kind(found, path))]
    if len(wanted) == len(outcomes) > 1:
        problems.add(path, f"must be {' or '.join(wanted)}, not {described(value)}")
    else:
        problems.extend(nearest)


def _outcome(option: inspect.Type, value: Any, path: str) -> list[tuple[str, str]]:
    found = Problems()
    try:
        walk(option, value, path, found)
    except ProblemsFull:
        return found.listed()[:-1]
    return found.listed()


def _wrong_kind(found: list[tuple[str, str]], path: str) -> str | None:
    """Return what kind was wanted when `found` says only that the kind is wrong, else None."""
    if len(found) == 1 and found[0][0] == path and found[0][1].startswith("must be a"):
        return found[0][1].removeprefix("must be ").split(", not ")[0]
    if len(found) == 1 and found[0][1].startswith("must be text"):
        return "text"
    return None


def _walk_tagged(
    options: list[inspect.StructType], value: dict[Any, Any], path: str, problems: Problems
) -> None:
    tag_field = options[0].tag_field or "type"
    by_tag = {str(option.tag): option for option in options}
    if tag_field not in value:
        problems.add(member(path, tag_field), f"is missing: add one of {listing(by_tag)}")
    elif str(value[tag_field]) not in by_tag:
        _walk_choice(sorted(by_tag), value[tag_field], member(path, tag_field), problems)
    else:
        walk(by_tag[str(value[tag_field])], value, path, problems)


def _walk_other(info: inspect.Type, value: Any, path: str, problems: Problems) -> None:
    """Ask msgspec itself, which knows formats that have no sentence of ours."""
    wanted = getattr(info, "cls", None) or _PLAIN.get(type(info))
    if isinstance(info, inspect.StrType):
        wanted = _annotated(info)
    if wanted is None:
        return
    try:
        msgspec.convert(value, wanted, strict=True, dec_hook=decode_quantity)
    except msgspec.ValidationError as error:
        problems.add(path, _sentence(error))


def _annotated(info: inspect.StrType) -> Any:
    return Annotated[str, msgspec.Meta(pattern=info.pattern)]


def _sentence(error: msgspec.ValidationError) -> str:
    """Return what our own parser said, or msgspec, without its own notion of a path."""
    if isinstance(error.__cause__, ValueError):
        return str(error.__cause__)
    text = str(error).split(" - at `$")[0]
    return text[:1].lower() + text[1:]


def _check_length(info: Any, length: int, noun: str, path: str, problems: Problems) -> None:
    low, high = info.min_length, info.max_length
    if low is not None and length < low:
        what = "must not be empty" if low == 1 else f"must have at least {low} {noun}"
        problems.add(path, f"{what}, not {length} {noun}" if low > 1 else what)
    if high is not None and length > high:
        problems.add(path, f"must have at most {high} {noun}, not {length}")


def _check_range(
    info: inspect.IntType | inspect.FloatType, value: float, path: str, problems: Problems
) -> None:
    bounds: list[tuple[float | None, str, Callable[[float, float], bool]]] = [
        (info.ge, "at least", lambda number, bound: number >= bound),
        (info.gt, "more than", lambda number, bound: number > bound),
        (info.le, "at most", lambda number, bound: number <= bound),
        (info.lt, "less than", lambda number, bound: number < bound),
        (info.multiple_of, "a multiple of", lambda number, bound: number % bound == 0),
    ]
    given = [(words, bound, holds) for bound, words, holds in bounds if bound is not None]
    if all(holds(value, bound) for _, bound, holds in given):
        return
    allowed = " and ".join(f"{words} {_plain(bound)}" for words, bound, _ in given)
    problems.add(path, f"must be {allowed}, not {described(value)}")


def _plain(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else repr(bound)


_PLAIN: dict[type, Any] = {
    inspect.BytesType: bytes,
    inspect.DateTimeType: dt.datetime,
    inspect.DateType: dt.date,
    inspect.TimeType: dt.time,
    inspect.TimeDeltaType: dt.timedelta,
    inspect.DecimalType: decimal.Decimal,
    inspect.UUIDType: uuid.UUID,
}
_WALKERS: dict[type, Callable[..., None]] = {
    inspect.StructType: _walk_struct,
    inspect.DictType: _walk_dict,
    inspect.ListType: _walk_list,
    inspect.SetType: _walk_list,
    inspect.FrozenSetType: _walk_list,
    inspect.VarTupleType: _walk_list,
    inspect.StrType: _walk_str,
    inspect.IntType: _walk_int,
    inspect.FloatType: _walk_float,
    inspect.BoolType: _walk_bool,
    inspect.NoneType: _walk_none,
    inspect.EnumType: _walk_enum,
    inspect.LiteralType: _walk_literal,
    inspect.UnionType: _walk_union,
}
