"""`longshore secret`: sets, lists and removes secrets of a project; no value is an argument."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import click

from longshore.dispatcher.api.schemas.containers import RotationAnswer, SecretAnswer, SecretList
from longshore.dispatcher.api.schemas.tokens import CallerAnswer
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import LIMIT_MAX, CommandClient
from longshore.dispatcher.cli.options import PlainGroup, json_option, server_command
from longshore.dispatcher.cli.secret_values import value_given, value_in


def project_option(function: click.decorators.FC) -> click.decorators.FC:
    """Give a command `--project`."""
    return click.option(
        "--project",
        default="",
        metavar="PROJECT",
        help="Whose secret it is.  [default: that of what you submit]",
    )(function)


@click.group(cls=PlainGroup)
def secret() -> None:
    """Set, list and remove the secrets of a project; nobody can read one."""


@secret.command(name="set")
@click.argument("name")
@project_option
@click.option(
    "--from-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Take the value from this file, as it is.",
)
@server_command
def set_secret(*, client: CommandClient, name: str, project: str, from_file: Path | None) -> None:
    """Set a secret to what is typed, or to standard input.

    One newline at the end of standard input is no part of the value.
    """
    value = value_in(from_file) if from_file is not None else value_given(f"Value of {name}")
    answer = client.send("PUT", _path(client, project, name), {"value": value})
    seen = read(answer, SecretAnswer)
    click.echo(f"secret {seen.name} of project {seen.project} is set")


@secret.command(name="list")
@project_option
@json_option
@server_command
def list_secrets(*, client: CommandClient, project: str, as_json: bool) -> None:
    """List the secrets of a project, without their values."""
    document = client.whole(_path(client, project), (), LIMIT_MAX)
    seen = read(document, SecretList)
    if as_json:
        output.print_json(document)
    else:
        rows = [_row(each) for each in seen.items]
        output.print_table(("NAME", "SET", "BY", "NOTE"), rows, wrap=("NOTE",))


@secret.command(name="rm")
@click.argument("name")
@project_option
@server_command
def remove_secret(*, client: CommandClient, name: str, project: str) -> None:
    """Remove a secret; what still refers to it waits until it is set again."""
    seen = read(client.send("DELETE", _path(client, project, name)), SecretAnswer)
    click.echo(f"secret {seen.name} of project {seen.project} is removed")


@secret.command(name="rotate-keys")
@server_command
def rotate_keys(*, client: CommandClient) -> None:
    """Encrypt all secrets anew with a new key, and forget the old ones."""
    seen = read(client.send("POST", "/v1/secret-keys/rotate", {}), RotationAnswer)
    click.echo(f"{seen.secrets} secrets are encrypted with a new key; keep a copy of the key file")


def _path(client: CommandClient, project: str, name: str | None = None) -> str:
    """Return the path of a secret, or of all of a project, "" for the caller's default one."""
    of = project or read(client.get("/v1/whoami"), CallerAnswer).default_project
    path = f"/v1/projects/{quote(of, safe='')}/secrets"
    return path if name is None else f"{path}/{quote(name, safe='')}"


def _row(seen: SecretAnswer) -> tuple[str, ...]:
    note = "" if seen.readable else "its key is missing: put back the server's key file"
    return seen.name, times.moment(seen.updated_at), seen.updated_by, note
