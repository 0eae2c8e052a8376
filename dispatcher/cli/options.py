"""Options and argument types that several commands share."""

from __future__ import annotations

import functools
import math
import os
import uuid
from collections.abc import Callable
from typing import Any

import click

from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.failure import USAGE

USUAL_SERVER = "this machine's: its socket, or else http://127.0.0.1:8420"

json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON document.")
config_option = click.option(
    "-c",
    "--config",
    "config_path",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="The configuration file.",
)


class _IdempotencyKey(click.types.StringParamType):
    """What servers take for an `Idempotency-Key`."""

    name = "key"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the key."""
        key = str(value)
        if not 0 < len(key) <= 200 or not key.isascii() or not key.isprintable() or " " in key:
            self.fail("must be 1 to 200 printable ASCII characters without spaces", param, ctx)
        return key


idempotency_option = click.option(
    "--idempotency-key",
    metavar="KEY",
    type=_IdempotencyKey(),
    # One for each run of the command, whatever it sends how often.
    default=lambda: uuid.uuid4().hex,
    help="Submit only once for all commands with this key in 24 hours.  [default: a new key]",
)


class Number(click.types.FloatParamType):
    """A finite number in a range; None for no bound, `above` for one that is not in it."""

    name = "number"

    def __init__(self, *, least: float | None = None, above: float | None = None) -> None:
        self._least = least
        self._above = above

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        low = self._least if self._above is None else self._above
        fits = low is None or number > low or (number == low and self._above is None)
        if not (math.isfinite(number) and fits):
            self.fail(f"must be a number{self._range()}, and {value!r} is not", param, ctx)
        return number

    def _range(self) -> str:
        if self._above is not None:
            return f" above {self._above:g}"
        return "" if self._least is None else f" from {self._least:g} on"


class WholeNumber(click.types.IntParamType):
    """A whole number from `least` to `most`, both included; None for no upper bound."""

    name = "whole number"

    def __init__(self, least: int, most: int | None = None) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        try:
            number = int(value)
        except ValueError:
            number = self._least - 1
        if number < self._least or (self._most is not None and number > self._most):
            most = "on" if self._most is None else f"to {self._most}"
            self.fail(
                f"must be a whole number from {self._least} {most}, and {value!r} is not",
                param,
                ctx,
            )
        return number


class PlainGroup(click.Group):
    """A group of commands that explains itself on stderr when no command is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the arguments that are left; ends with the exit code of wrong usage for none."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(USAGE)
        return super().parse_args(ctx, args)


def server_command(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command `--url`, and call it with a `client`, which is closed afterwards."""

    @click.option(
        "--url",
        envvar="LONGSHORE_URL",
        default=None,
        show_default=USUAL_SERVER,
        metavar="URL",
        help="The server (or LONGSHORE_URL); LONGSHORE_TOKEN holds the token.",
    )
    @functools.wraps(function)
    def run(*, url: str | None, **others: Any) -> int | None:
        with CommandClient(url, os.environ.get("LONGSHORE_TOKEN", "")) as client:
            return function(client=client, **others)

    return run
