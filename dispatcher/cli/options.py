"""Options and argument types that several commands share."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from typing import Any

import click

from dispatcher.cli.client import Client

DEFAULT_URL = "http://127.0.0.1:8420"

json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")
config_option = click.option(
    "-c",
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="The configuration file.",
)


class FiniteNumber(click.FloatRange):
    """A number in a range; infinity and NaN, which compare as if they were in it, are refused."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


def server_command(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command `--url`, and call it with a `client`, which is closed afterwards."""

    @click.option(
        "--url",
        envvar="LONGSHORE_URL",
        default=DEFAULT_URL,
        show_default=True,
        metavar="URL",
        help="The server (or LONGSHORE_URL); LONGSHORE_TOKEN holds the token.",
    )
    @functools.wraps(function)
    def run(*, url: str, **others: Any) -> int | None:
        with Client(url, os.environ.get("LONGSHORE_TOKEN", "")) as client:
            return function(client=client, **others)

    return run
