"""`longshore serve` and `longshore version`."""

from __future__ import annotations

from importlib import metadata

import click

from longshore.dispatcher.cli.commands.configuration import config_failure, load
from longshore.dispatcher.cli.failure import FAILED, USAGE, CommandFailure
from longshore.dispatcher.cli.options import config_option, json_option
from longshore.dispatcher.cli.output import print_json
from longshore.drivers.errors import ConfigError, LongshoreError


@click.command()
@config_option
@click.option(
    "--accept-new-store",
    is_flag=True,
    help="Accept the store although the data directory knows another, or a later state of it.",
)
def serve(*, config_path: str | None, accept_new_store: bool) -> int:
    """Run the server until SIGTERM or Ctrl-C.

    Without a configuration it serves on 127.0.0.1:8420, with this machine as the only instance.
    """
    loaded = load(config_path)
    from longshore.dispatcher.server.serving import serve as serve_until_told  # noqa: PLC0415 - the whole server
    from longshore.dispatcher.store.errors import StoreIsAnother  # noqa: PLC0415 - as the server

    try:
        return serve_until_told(loaded, accept_new_store=accept_new_store)
    except StoreIsAnother as error:
        raise CommandFailure(str(error), exit_code=USAGE) from error
    except ConfigError as error:
        raise config_failure(error) from error
    except (LongshoreError, OSError) as error:
        raise CommandFailure(f"the server cannot run: {error}", exit_code=FAILED) from error


@click.command()
@json_option
def version(*, as_json: bool) -> None:
    """Print the version."""
    if as_json:
        print_json({"version": installed_version()})
    else:
        click.echo(version_line())


def version_line() -> str:
    """Return what this is, and in which version."""
    return f"longshore {installed_version()}"


def installed_version() -> str:
    """Return the version, or a phrase when there is none."""
    try:
        return metadata.version("longshore")
    except metadata.PackageNotFoundError:
        return "(not installed, run from its sources)"
