"""`longshore health`: how the server does, for people and for cron."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.health import HealthAnswer
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.failure import FAILED
from longshore.dispatcher.cli.options import json_option, server_command

_UNITS = (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


@click.command()
@json_option
@server_command
def health(*, client: CommandClient, as_json: bool) -> int:
    """Tell how the server does: what is wrong, since when, and its disks.

    Exits with 0 when nothing is wrong, and with 1 when something is, with the cloud too.
    """
    document = client.get("/v1/health")
    seen = read(document, HealthAnswer)
    if as_json:
        output.print_json(document)
    else:
        click.echo(_summary(seen))
        if seen.problems:
            output.print_table(
                ("KIND", "FOR", "PROBLEM"),
                [(each.kind, times.age(each.since), each.message) for each in seen.problems],
                wrap=("PROBLEM",),
            )
        for each in seen.advice:
            click.echo(f"advice: {each}")
        output.print_fields(_disks(seen))
    return FAILED if seen.degraded else 0


def _summary(seen: HealthAnswer) -> str:
    if not seen.ready:
        return "requests cannot be served"
    return "requests are served, but something is wrong" if seen.degraded else "all is well"


def _disks(seen: HealthAnswer) -> list[tuple[str, str]]:
    store, logs = seen.store, seen.logs
    pending = store.pending_writes
    waiting = f", {pending} {'change waits' if pending == 1 else 'changes wait'} to be written"
    waiting = waiting if pending else ""
    sizes = f"{_rough(store.database_bytes)}, and {_rough(store.wal_bytes)} in its WAL"
    return [
        ("store", f"{sizes}{waiting}"),
        ("its disk", _free(store.free_bytes, store.free_inodes)),
        ("disk of logs", _free(logs.free_bytes, logs.free_inodes)),
    ]


def _free(free_bytes: int, free_inodes: int | None) -> str:
    inodes = "" if free_inodes is None else f", {free_inodes:,} inodes"
    return f"{_rough(free_bytes)}{inodes} free"


def _rough(amount_bytes: int) -> str:
    """Return a number of bytes to a tenth of its largest unit."""
    for name, unit in _UNITS:
        if amount_bytes >= unit:
            return f"{amount_bytes / unit:.1f} {name}"
    return f"{amount_bytes} bytes"
