"""`longshore backup`: a copy of the store, beside a server that runs or not."""

from __future__ import annotations

import time
from pathlib import Path

import click

from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.commands.configuration import load
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.options import config_option, json_option


@click.command()
@click.argument("target", metavar="TARGET", type=click.Path(path_type=Path))
@config_option
@json_option
def backup(*, target: Path, config_path: str | None, as_json: bool) -> None:
    """Copy the store to the new file TARGET, while a server uses it or not.

    Runs on the server's machine, as its user. Everything that was acknowledged before is in the
    copy, which is checked, and readable by its owner only: it holds commands and environments.
    The logs and the key are files of their own; docs/operations.md has the whole backup.

    \b
    Example:
      longshore backup -c longshore.yml /backups/longshore-$(date +%F).db
    """
    from longshore.dispatcher.config.store_url import store_path  # noqa: PLC0415 - as above
    from longshore.dispatcher.store.backup import back_up  # noqa: PLC0415 - most commands need none
    from longshore.dispatcher.store.errors import StoreUnusable  # noqa: PLC0415 - as above

    store = store_path(load(config_path).store)
    began = time.monotonic()
    try:
        copied = back_up(store, target.absolute())
    except StoreUnusable as error:
        raise CommandFailure(str(error)) from error
    took_s = round(time.monotonic() - began, 3)
    if as_json:
        output.print_json(
            {
                "path": str(copied.path),
                "size_bytes": copied.size_bytes,
                "containers": copied.containers,
                "took_s": took_s,
            }
        )
        return
    click.echo(
        f"{output.safe(str(copied.path))}: {copied.containers} containers,"
        f" {copied.size_bytes} bytes, in {took_s:.1f} s"
    )
