"""Where the command line takes values of secrets from: never an argument, which all can read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from longshore.dispatcher.cli.failure import FAILED, USAGE, CommandFailure

VALUE_MOST_BYTES = 32 * 1024
_USE = re.compile("(?P<name>[^:=]+):(?P<kind>env|file|registry)=(?P<target>.+)")


def secret_variables(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return variables with secret values as JSON: each our own of that name, or standard input's.

    Raises `CommandFailure` for NAME=VALUE, and for a second one that would be read from there.
    """
    found = {}
    unset = [name for name in names if name not in os.environ]
    for name in names:
        if "=" in name:
            raise CommandFailure(
                "--secret takes the name of a variable, and never a value",
                remedy=f"Write --secret {name.partition('=')[0]}, with the value on standard input",
                exit_code=USAGE,
            )
    if len(unset) > 1:
        raise CommandFailure(
            f"standard input holds one value, not those of {' and '.join(unset[:5])}",
            remedy="Set all but one of these variables for this command",
            exit_code=USAGE,
        )
    for name in names:
        value = os.environ[name] if name in os.environ else value_given(f"Value of {name}")
        found[name] = {"secret": value}
    return found


def secret_uses(options: Sequence[str]) -> list[dict[str, str]]:
    """Return what "NAME:env=VARIABLE" and the like ask for, as JSON."""
    found = []
    for option in options:
        match = _USE.fullmatch(option)
        if match is None:
            raise CommandFailure(
                f"--use-secret {option!r} is not NAME:env=VARIABLE, :file=FILE or :registry=HOST",
                remedy="Write for example --use-secret db:env=DB_PASSWORD",
                exit_code=USAGE,
            )
        found.append({"name": match["name"], match["kind"]: match["target"]})
    return found


def value_given(prompt: str) -> str:
    """Return a value that is typed without being shown, or the whole of standard input.

    Raises `CommandFailure` for what is empty, too long or no text.
    """
    if sys.stdin.isatty():
        return str(click.prompt(prompt, hide_input=True, err=True))
    content = sys.stdin.buffer.read(VALUE_MOST_BYTES + 2)
    return _text(content.removesuffix(b"\n"), "standard input")


def value_in(path: Path) -> str:
    """Return the content of a file; raises `CommandFailure` as `value_given` does."""
    try:
        with path.open("rb") as file:
            content = file.read(VALUE_MOST_BYTES + 1)
    except OSError as error:
        remedy = "Name a file that you may read"
        raise CommandFailure(
            f"{path} cannot be read: {error.strerror}", remedy=remedy, exit_code=FAILED
        ) from error
    return _text(content, str(path))


def _text(content: bytes, where: str) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text, wrong, remedy = "", "is no text (UTF-8)", "Encode it first, for example with base64"
    else:
        wrong, remedy = "", ""
    if not wrong and not content:
        wrong, remedy = "is empty", "Give the value there"
    if not wrong and len(content) > VALUE_MOST_BYTES:
        wrong, remedy = f"has over {VALUE_MOST_BYTES} bytes", "Give less: a key, not what it opens"
    if wrong:
        raise CommandFailure(f"{where} {wrong}", remedy=remedy, exit_code=USAGE)
    return text
