"""A driver's own parameters: what is wrong with them, and how they are shown and explained.

What is marked `drivers.interface.SECRET` is hidden wherever it is not asked for outright.
"""

from __future__ import annotations

import inspect as python_inspect
import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from longshore.dispatcher.config.model import Config, PricesFrom
from longshore.dispatcher.config.types import as_instance_type
from longshore.dispatcher.input.problems import Problems, element, member
from longshore.dispatcher.input.validation import decode_all
from longshore.dispatcher.input.walk import is_secret
from longshore.drivers.errors import ConfigError, InvalidRequest
from longshore.drivers.interface import InstanceType
from longshore.drivers.registry import Capability, DriverInfo, driver

HIDDEN = "(hidden; --secrets shows it)"
"""What stands in the place of a secret."""

_ABSENT: tuple[object, ...] = ("", None, [], {})
_PATH = "driver.parameters"

T = TypeVar("T")


def check_driver(config: Config, sound: frozenset[str], problems: Problems) -> None:
    """Add what is wrong with the driver's name and parameters to `problems`.

    Of the instance types and the pool nothing is asked unless these sections are `sound`, too.
    """
    try:
        info = driver(config.driver.name)
    except ConfigError as error:
        problems.extend(error.problems)
        return
    try:
        parameters = decode_all(info.parameters, config.driver.parameters, _PATH)
    except InvalidRequest as error:
        problems.extend(error.problems)
        return
    for path in _hidden(inspect.type_info(info.parameters), config.driver.parameters, _PATH):
        problems.add(path, "is what `config show` puts in place of a secret: write the secret")
    if info.check is not None:
        for path, what in _asked(info, "check", lambda: list(_checked(info, parameters)), problems):
            problems.add(f"{_PATH}.{path}" if path else _PATH, what)
    if "cost" in sound:
        _check_prices(config, info, problems)
    if "pool" in sound:
        _check_time(config, parameters, problems)
    if "instance_types" in sound:
        _check_types(config, info, parameters, problems)


def shown_parameters(parameters: msgspec.Struct, *, secrets: bool) -> dict[str, Any]:
    """Return parameters as YAML and JSON can say them, with defaults; hidden unless `secrets`."""
    values: dict[str, Any] = msgspec.to_builtins(parameters, enc_hook=str)
    if secrets:
        return values
    covered: dict[str, Any] = _covered(inspect.type_info(type(parameters)), values)
    return covered


def explained_parameters(info: DriverInfo) -> list[str]:
    """Return what the driver takes, in lines: each parameter with its type and default."""
    lines = [f"driver.parameters of {info.name}, {info.summary}:"]
    fields = list(_fields(inspect.type_info(info.parameters), ""))
    lines += [f"  {each}" for each in fields] or ["  there are none"]
    text = python_inspect.cleandoc(info.parameters.__doc__ or "")
    return [*lines, "", *text.splitlines()] if text else lines


# ---- what is wrong -------------------------------------------------------------------------------


def _checked(info: DriverInfo, parameters: msgspec.Struct) -> Iterator[tuple[str, str]]:
    yield from info.check(parameters) if info.check is not None else ()


def _check_prices(config: Config, info: DriverInfo, problems: Problems) -> None:
    is_live = config.cost.prices is PricesFrom.LIVE
    if is_live and Capability.PRICES not in info.capabilities:
        problems.add(
            "cost.prices",
            f"cannot be live: the driver {info.name} tells no prices; say configured, and what each"
            " type costs as its price_per_hour",
        )


def _check_time(config: Config, parameters: msgspec.Struct, problems: Problems) -> None:
    """A call that the pool gives up before the driver does has an unknown outcome for nothing."""
    timeouts = {"connect_timeout_s", "read_timeout_s"} & set(parameters.__struct_fields__)
    longest_s = sum(float(getattr(parameters, name)) for name in sorted(timeouts))
    if longest_s > config.pool.cloud_call_timeout_s:
        problems.add(
            f"{_PATH}.{max(timeouts)}",
            f"a call of the driver may take {longest_s:g} s ({' + '.join(sorted(timeouts))}), but"
            f" pool.cloud_call_timeout_s gives it up after {config.pool.cloud_call_timeout_s:g} s:"
            " make one longer, or the others shorter",
        )


def _check_types(
    config: Config, info: DriverInfo, parameters: msgspec.Struct, problems: Problems
) -> None:
    fault_of_type, image_of = info.fault_of_type, info.image_of
    for name, each in sorted(config.instance_types.items()):
        ask, ask_image = partial(_answers, fault_of_type), partial(_answers, image_of)
        of = (parameters, as_instance_type(name, each))
        if each.reservation and Capability.RESERVATIONS not in info.capabilities:
            what = f"cannot be taken up: the driver {info.name} knows no reservations; leave it out"
            problems.add(f"{member('instance_types', name)}.reservation", what)
        for fault in _asked(info, "fault_of_type", partial(ask, *of), problems):
            if fault:
                problems.add(member("instance_types", name), fault)
        for image in _asked(info, "image_of", partial(ask_image, *of), problems):
            if not image and not config.pool.image:
                what = "no image is named for it: set pool.image, or the driver's own parameter"
                problems.add(member("instance_types", name), what)


def _answers(
    hook: Callable[[Any, InstanceType], T] | None, parameters: msgspec.Struct, type_: InstanceType
) -> list[T]:
    """Return what a hook says of a type, nothing when the driver has no such hook."""
    return [] if hook is None else [hook(parameters, type_)]


def _asked(info: DriverInfo, what: str, ask: Callable[[], list[T]], problems: Problems) -> list[T]:
    """Return what a driver says; what it raises is a problem, of which only the kind is told."""
    try:
        return ask()
    except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; it is told
        kind = type(error).__name__
        problems.add(
            "driver.name", f"`{what}` of {info.name} raises {kind}: mend or uninstall its package"
        )
        return []


def _hidden(info: inspect.Type, value: object, path: str) -> Iterator[str]:
    """Yield where a secret is what `config show` shows in its place."""
    inside = value.values() if isinstance(value, dict) else [value]
    if is_secret(info) and HIDDEN in inside:
        yield path
        return
    for each, child, place in _parts(info, value, path):
        yield from _hidden(each, child, place)


def _parts(
    info: inspect.Type, value: object, path: str
) -> Iterator[tuple[inspect.Type, object, str]]:
    """Yield what a value is made of: the type, the value and the path of each part."""
    match info:
        case inspect.Metadata():
            yield info.type, value, path
        case inspect.UnionType():
            for option in info.types:
                yield option, value, path
        case _:
            for key, type_ in _types_within(info, value).items():
                place = element(path, key) if isinstance(key, int) else member(path, str(key))
                yield type_, value[key], place  # type: ignore[index]  # its keys are the value's


def _types_within(info: inspect.Type, value: object) -> dict[Any, inspect.Type]:
    """Return the types of what is in a mapping by key, in a list by number; {} for all others."""
    types: dict[Any, inspect.Type] = {}
    match info, value:
        case ((inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType()), dict()):
            fields = {field.encode_name: field.type for field in info.fields}
            types = {name: fields[name] for name in sorted(fields.keys() & value.keys())}
        case inspect.DictType(), dict():
            types = dict.fromkeys(value, info.value_type)
        case (
            (
                inspect.ListType()
                | inspect.VarTupleType()
                | inspect.SetType()
                | inspect.FrozenSetType()
            ),
            (list() | tuple()),
        ):
            types = dict.fromkeys(range(len(value)), info.item_type)
        case inspect.TupleType(), (list() | tuple()):
            types = dict(enumerate(info.item_types[: len(value)]))
        case inspect.NamedTupleType(), (list() | tuple()):
            types = dict(enumerate(field.type for field in info.fields[: len(value)]))
    return types


# ---- how they are shown --------------------------------------------------------------------------


def _covered(info: inspect.Type, value: Any) -> Any:
    """Return plain `value`, which is what `info` tells, without its secrets."""
    covered = value
    match info:
        case inspect.Metadata() if is_secret(info):
            covered = value if value in _ABSENT else _in_place_of(value)
        case inspect.Metadata():
            covered = _covered(info.type, value)
        case inspect.UnionType():
            for option in info.types:
                covered = _covered(option, covered)
        case _:
            types = _types_within(info, value)
            if isinstance(value, dict):
                covered = {**value, **{key: _covered(types[key], value[key]) for key in types}}
            elif isinstance(value, list | tuple):
                covered = [*value]
                for key, type_ in types.items():
                    covered[key] = _covered(type_, value[key])
    return covered


def _in_place_of(value: object) -> object:
    """Return what stands for a secret: the keys of a mapping are none."""
    return dict.fromkeys(value, HIDDEN) if isinstance(value, dict) else HIDDEN


def _fields(info: inspect.Type, path: str) -> Iterator[str]:
    if not isinstance(info, inspect.StructType):
        return
    for field in info.fields:
        name, inner = member(path, field.encode_name), _bare(field.type)
        if isinstance(inner, inspect.StructType):
            yield from _fields(inner, name)
            continue
        default = "required" if field.required else f"default {_default(field)}"
        secret = ", secret" if is_secret(field.type) else ""
        yield f"{name}: {_kind(field.type)}, {default}{secret}"


def _default(field: inspect.Field) -> str:
    made = (
        field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    )
    return json.dumps(msgspec.to_builtins(made, enc_hook=str))


def _bare(info: inspect.Type) -> inspect.Type:
    return _bare(info.type) if isinstance(info, inspect.Metadata) else info


def _kind(info: inspect.Type) -> str:
    """Return a type in the words of a configuration file."""
    bare = _bare(info)
    word = _WORDS.get(type(bare))
    return word(bare) if word is not None else "anything"


def _range(number: inspect.IntType | inspect.FloatType) -> str:
    words = (("from", number.ge), ("above", number.gt), ("to", number.le), ("below", number.lt))
    return "".join(f" {word} {bound:g}" for word, bound in words if bound is not None)


_WORDS: dict[type, Callable[[Any], str]] = {
    inspect.StrType: lambda _: "text",
    inspect.BoolType: lambda _: "true or false",
    inspect.IntType: lambda info: f"whole number{_range(info)}",
    inspect.FloatType: lambda info: f"number{_range(info)}",
    inspect.NoneType: lambda _: "null",
    inspect.EnumType: lambda info: "one of " + ", ".join(str(each.value) for each in info.cls),
    inspect.LiteralType: lambda info: "one of " + ", ".join(map(str, info.values)),
    inspect.ListType: lambda info: f"list of {_kind(info.item_type)}",
    inspect.VarTupleType: lambda info: f"list of {_kind(info.item_type)}",
    inspect.DictType: lambda info: f"mapping of {_kind(info.key_type)} to {_kind(info.value_type)}",
    inspect.UnionType: lambda info: " or ".join(map(_kind, info.types)),
    inspect.StructType: lambda _: "mapping",
}
