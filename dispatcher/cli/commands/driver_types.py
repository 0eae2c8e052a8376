"""`longshore driver types`: write the section `instance_types` from what the account can have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.commands.configuration import config_failure
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.options import config_option, json_option
from longshore.drivers.errors import CloudError, ConfigError, InvalidRequest

if TYPE_CHECKING:
    import msgspec

    from longshore.drivers.interface import InstanceType, Resources
    from longshore.drivers.registry import DriverInfo

_UNITS = (("GiB", 2**30), ("GB", 10**9), ("MiB", 2**20), ("MB", 10**6), ("KiB", 2**10))


@click.command()
@config_option
@click.option(
    "--driver",
    "driver_name",
    metavar="NAME",
    help="Use this driver in place of the configured one, with its default parameters.",
)
@click.option(
    "--region", metavar="REGION", default="", help="Use another region than the driver's."
)
@click.option(
    "--families", metavar="F[,F...]", default="", help="Only these families, for example m7i,g5."
)
@click.option("--preemptible", is_flag=True, help="Add their preemptible (spot) variants.")
@json_option
def types(
    *,
    config_path: str | None,
    driver_name: str | None,
    region: str,
    families: str,
    preemptible: bool,
    as_json: bool,
) -> None:
    """Write the section instance_types from the account's offerings and prices.

    Of the configuration file only the section driver is read, so the rest may be missing yet. What
    is written is a whole section: put it in the place of the one that the file has.

    \b
    Example:
      longshore driver types -c longshore.yml --families m7i,c7i >types.yml
    """
    from longshore.drivers.registry import OfferQuery  # noqa: PLC0415 - most commands need no drivers

    wanted = tuple(part for part in (each.strip() for each in families.split(",")) if part)
    try:
        info, parameters = _driver(config_path, driver_name)
        if info.offers is None:
            raise CommandFailure(
                f"the driver {info.name} does not tell which instance types there are",
                remedy="Write instance_types yourself; see config.example.yml",
                exit_code=USAGE,
            )
        query = OfferQuery(region=region, families=wanted, preemptible=preemptible)
        offered = info.offers(parameters, query)
    except ConfigError as error:
        raise config_failure(error) from error
    except CloudError as error:
        raise CommandFailure(f"the driver cannot tell the instance types: {error}") from error
    if not offered:
        raise CommandFailure(
            "none of the instance types asked for is offered with a known price",
            remedy="Ask for other families, or another region",
        )
    section = {"instance_types": {each.name: as_configured(each) for each in offered}}
    if as_json:
        output.print_json(section)
        return
    import yaml  # noqa: PLC0415 - slow to import, and only YAML needs it

    click.echo(yaml.safe_dump(section, sort_keys=False, allow_unicode=True), nl=False)


def _driver(config_path: str | None, driver_name: str | None) -> tuple[DriverInfo, msgspec.Struct]:
    """Return the driver and its parameters; raises `ConfigError` with all that is wrong."""
    from longshore.dispatcher.config.file import read_mapping  # noqa: PLC0415 - most commands need none
    from longshore.dispatcher.config.model import DriverConfig  # noqa: PLC0415 - most commands need none
    from longshore.dispatcher.input.validation import decode_all  # noqa: PLC0415 - most commands need none
    from longshore.drivers.registry import driver  # noqa: PLC0415 - most commands need no drivers

    raw = read_mapping(Path(config_path)) if config_path is not None else {}
    try:
        configured = decode_all(DriverConfig, raw.get("driver") or {}, "driver")
        name = driver_name or configured.name
        info = driver(name)
        given = configured.parameters if name == configured.name else {}
        parameters: msgspec.Struct = decode_all(info.parameters, given, "driver.parameters")
    except InvalidRequest as error:
        raise ConfigError(error.problems) from error
    found = info.check(parameters) if info.check is not None else ()
    if found:
        raise ConfigError([(f"driver.parameters.{path}", what) for path, what in found])
    return info, parameters


def as_configured(instance_type: InstanceType) -> dict[str, Any]:
    """Return a type as the configuration has it, without what is as it would be anyway."""
    resources = instance_type.resources
    said: dict[str, Any] = {
        "provider_type": instance_type.provider_type,
        "cpus": _cpus(resources.cpu_millis),
        "memory": size(resources.memory_bytes),
        "disk": size(resources.disk_bytes),
        "gpus": _gpus(instance_type),
        "price_per_hour": _number(float(instance_type.price_usd_per_hour)),
        "preemptible": instance_type.preemptible,
        "labels": dict(instance_type.labels),
        "resources": dict(resources.custom),
        "reserve": _amounts(_by_dimension(instance_type.reserve)),
        "defaults": _amounts(instance_type.defaults),
    }
    required = ("provider_type", "cpus", "memory", "price_per_hour")
    return {key: value for key, value in said.items() if value or key in required}


def _by_dimension(amounts: Resources) -> Sequence[tuple[str, int]]:
    known = (
        ("cpus", amounts.cpu_millis),
        ("memory", amounts.memory_bytes),
        ("disk", amounts.disk_bytes),
        ("gpus", amounts.gpus),
        *amounts.custom,
    )
    return [(dimension, amount) for dimension, amount in known if amount]


def _amounts(amounts: Sequence[tuple[str, int]]) -> dict[str, Any]:
    """Return amounts by dimension, cpus in thousandths, as the configuration has them."""
    told: Mapping[str, Callable[[int], Any]] = {
        "cpus": _cpus,
        "memory": size,
        "disk": size,
        "gpus": int,
    }
    section: dict[str, Any] = {
        dimension: told[dimension](amount) for dimension, amount in amounts if dimension in told
    }
    custom = {dimension: amount for dimension, amount in amounts if dimension not in told}
    return {**section, "resources": custom} if custom else section


def _gpus(instance_type: InstanceType) -> int | dict[str, Any]:
    count = instance_type.resources.gpus
    if not count or not (instance_type.gpu_model or instance_type.gpu_memory_bytes):
        return count
    told = {
        "count": count,
        "memory": size(instance_type.gpu_memory_bytes),
        "model": instance_type.gpu_model,
    }
    return {key: value for key, value in told.items() if value}


def size(amount_bytes: int) -> int | str:
    """Return a number of bytes as a text with a unit, exact; the plain number where none fits."""
    for unit, factor in _UNITS:
        if amount_bytes and amount_bytes % factor == 0:
            return f"{amount_bytes // factor}{unit}"
    return amount_bytes


def _cpus(millis: int) -> int | float:
    return _number(millis / 1000)


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else value
