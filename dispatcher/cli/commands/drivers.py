"""`longshore driver`: what drivers there are, what they can do, and whether they do it."""

from __future__ import annotations

import click

from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.commands.conformance import test
from longshore.dispatcher.cli.commands.driver_types import types
from longshore.dispatcher.cli.options import PlainGroup, json_option
from longshore.drivers.errors import ConfigError


@click.group(cls=PlainGroup)
def driver() -> None:
    """Show the drivers, try them, and ask them for instance types."""


@driver.command(name="list")
@json_option
def list_(*, as_json: bool) -> None:
    """List the drivers that are installed, with what each can do beside the rest.

    A plug-in that cannot be loaded is listed with its problem.
    """
    from longshore.drivers.registry import driver_names  # noqa: PLC0415 - loads every driver there is

    items = [_described(name) for name in driver_names()]
    output.listing(as_json, items, lambda: _print(items))


driver.add_command(test)
driver.add_command(types)


def _described(name: str) -> dict[str, object]:
    from longshore.drivers.registry import driver as load  # noqa: PLC0415 - loads every driver there is
    from longshore.drivers.registry import origin_of  # noqa: PLC0415 - loads every driver there is

    described: dict[str, object] = {
        "name": name,
        "origin": origin_of(name),
        "summary": "",
        "capabilities": [],
        "problem": None,
    }
    try:
        info = load(name)
    except ConfigError as error:
        return described | {"problem": "; ".join(what for _, what in error.problems)}
    capabilities = sorted(each.value for each in info.capabilities)
    return described | {"summary": info.summary, "capabilities": capabilities}


def _print(items: list[dict[str, object]]) -> None:
    rows = []
    for item in items:
        capabilities = item["capabilities"]
        shown = " ".join(capabilities) if isinstance(capabilities, list) else ""
        what = f"PROBLEM: {item['problem']}" if item["problem"] else str(item["summary"])
        rows.append((str(item["name"]), str(item["origin"]), what, shown))
    columns = ("NAME", "ORIGIN", "SUMMARY", "CAPABILITIES")
    output.print_table(columns, rows, wrap=("SUMMARY", "CAPABILITIES"))
