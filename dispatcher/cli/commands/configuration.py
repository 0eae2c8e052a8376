"""`longshore config`: write, check and show the configuration."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.options import PlainGroup, config_option, json_option
from longshore.drivers.errors import ConfigError

if TYPE_CHECKING:
    from longshore.dispatcher.config.loading import Config

EXAMPLE = "config.example.yml"
NEW_FILE = "longshore.yml"


@click.group(cls=PlainGroup)
def config() -> None:
    """Write, check and show the configuration."""


@config.command()
@click.option(
    "-c",
    "--config",
    "config_path",
    metavar="FILE",
    default=NEW_FILE,
    show_default=True,
    type=click.Path(dir_okay=False),
    help="Where to write it; - is stdout.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init(*, config_path: str, force: bool) -> None:
    """Write a configuration file with every key explained."""
    text = example()
    if config_path == "-":
        click.echo(text, nl=False)
        return
    try:
        with Path(config_path).open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CommandFailure(
            f"{config_path} exists",
            remedy="Overwrite it with --force, or write another with -c FILE",
        ) from None
    except OSError as error:
        raise CommandFailure(f"cannot write {config_path}: {error.strerror or error}") from error
    click.echo(f"{config_path} is written; next: longshore serve -c {config_path}")


@config.command()
@config_option
def check(*, config_path: str | None) -> None:
    """Check the configuration and list everything that is wrong with it."""
    loaded = load(config_path)
    click.echo("ok")
    output.print_fields(summary(loaded))


@config.command()
@config_option
@click.option(
    "--secrets",
    is_flag=True,
    help="Show the driver's secret parameters and the paths of webhooks, too.",
)
@json_option
def show(*, config_path: str | None, secrets: bool, as_json: bool) -> None:
    """Print the configuration as it takes effect, with defaults filled in.

    What the driver takes is explained in comments. Secrets are hidden.
    """
    from longshore.dispatcher.config.driver_parameters import (  # noqa: PLC0415 - as above
        explained_parameters,
        shown_parameters,
    )
    from longshore.dispatcher.config.loading import driver_parameters, plain  # noqa: PLC0415 - most commands need none
    from longshore.dispatcher.config.notifications import shown_webhooks  # noqa: PLC0415 - as above
    from longshore.drivers.registry import driver  # noqa: PLC0415 - as above

    loaded = load(config_path)
    effective = plain(loaded)
    parameters = shown_parameters(driver_parameters(loaded), secrets=secrets)
    effective["driver"]["parameters"] = parameters
    webhooks = shown_webhooks(loaded.notifications, secrets=secrets)
    effective["notifications"]["webhooks"] = webhooks
    if as_json:
        output.print_json(effective)
        return
    import yaml  # noqa: PLC0415 - slow to import, and only YAML needs it

    for line in explained_parameters(driver(loaded.driver.name)):
        click.echo(output.safe(f"# {line}".rstrip()))
    click.echo(yaml.safe_dump(effective, sort_keys=False, allow_unicode=True), nl=False)


def load(config_path: str | None) -> Config:
    """Return the configuration; raises `CommandFailure` with everything that is wrong with it."""
    from longshore.dispatcher.config.loading import load_config  # noqa: PLC0415 - most commands need none

    try:
        return load_config(config_path)
    except ConfigError as error:
        raise config_failure(error) from error


def config_failure(error: ConfigError) -> CommandFailure:
    """Return what is said about an unusable configuration."""
    count = len(error.problems)
    return CommandFailure(
        f"the configuration has {count} problem{'' if count == 1 else 's'}",
        exit_code=USAGE,
        problems=error.problems,
    )


def example() -> str:
    """Return the commented example, from the installed package or from the sources."""
    packaged = resources.files("longshore.dispatcher") / EXAMPLE
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    source = Path(__file__).resolve().parents[3] / EXAMPLE
    try:
        return source.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandFailure(
            f"{EXAMPLE} is missing from this installation: install it again"
        ) from error


def summary(loaded: Config) -> list[tuple[str, str]]:
    """Return what an operator checks at a glance."""
    types = sorted(loaded.instance_types)
    return [
        ("listen", loaded.listen),
        ("data_dir", loaded.data_dir),
        ("driver", loaded.driver.name),
        ("instance types", ", ".join(types) if types else "this machine"),
        ("engine", loaded.engine.name.value),
    ]
