"""`longshore cost export`: the ledger as files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.options import server_command
from longshore.dispatcher.cli.render.terminal_text import Sink
from longshore.dispatcher.client.dialogue import FILE_SILENCE_LIMIT_S


@click.command()
@click.option("--focus", type=click.Choice(["1.4", "1.2"]), help="As FOCUS; for admins.")
@click.option("--csv", "as_csv", is_flag=True, help="As plain CSV; so it is if nothing is said.")
@click.option("--month", metavar="YYYY-MM", default="", help="The month; default: this one.")
@click.option("--tz", metavar="ZONE", default="", help="The zone of the month; default: UTC.")
@click.option("--label", "labels", metavar="KEY", multiple=True, help="A column for this label.")
@click.option(
    "-o", "--output", "path", type=click.Path(dir_okay=False), metavar="FILE", help="Not to stdout."
)
@server_command
def export(
    *,
    client: CommandClient,
    focus: str | None,
    as_csv: bool,
    month: str,
    tz: str,
    labels: tuple[str, ...],
    path: str | None,
) -> None:
    """Write the lines of a month as a file: a row for each instance, hour and attempt or cause."""
    if focus and as_csv:
        raise click.UsageError("--focus and --csv are two forms of a file: give one of them.")
    query = [
        ("format", f"focus-{focus}" if focus else "csv"),
        ("month", month),
        ("tz", tz),
        ("label", ",".join(labels)),
    ]
    asked = [each for each in query if each[1]]
    with client.stream(
        "/v1/cost/export", asked, read_timeout_s=FILE_SILENCE_LIMIT_S, accept="text/csv"
    ) as response:
        pieces = client.chunks(response)
        if path is None:
            sink = Sink(sys.stdout.buffer, raw=not sys.stdout.isatty())
            for piece in pieces:
                sink.write(piece)
            sink.end()
        else:
            _write_whole(Path(path), pieces)


def _write_whole(path: Path, pieces: Iterator[bytes]) -> None:
    """Write a file that is there once all of it came, and as it was until then."""
    staged = path.with_name(f"{path.name}.part")
    try:
        with staged.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        staged.replace(path)
    except OSError as error:
        raise CommandFailure(
            f"cannot write {path}: {error.strerror or error}",
            remedy="Name another file with -o",
        ) from error
    finally:
        staged.unlink(missing_ok=True)
