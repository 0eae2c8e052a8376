"""`longshore token` and `longshore whoami`: who is let in, and who one is."""

from __future__ import annotations

import re

import click

from longshore.dispatcher.api.schemas.tokens import (
    CallerAnswer,
    NewTokenAnswer,
    TokenAnswer,
    TokenList,
)
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import LIMIT_MAX, CommandClient
from longshore.dispatcher.cli.durations import MomentParam
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.ids import token_path
from longshore.dispatcher.cli.options import (
    PlainGroup,
    idempotency_option,
    json_option,
    server_command,
)

_ROLES = ("user", "lead", "admin", "metrics")
_TOKEN_ID = re.compile(r"\bt-[0-9a-f]+\b")


@click.group(cls=PlainGroup)
def token() -> None:
    """Make, list and revoke the tokens that let people in."""


@token.command("create")
@click.option("--user", required=True, help="Who it is for: what they submit carries this name.")
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    default="user",
    show_default=True,
    help="What they may do: act on their own, on all of their projects, on everything; or read"
    " metrics.",
)
@click.option(
    "--project", "projects", multiple=True, help="A project that they see; may be repeated."
)
@click.option(
    "--default-project",
    default="",
    help="The project of what names none; needed where there are several.",
)
@click.option("--name", default="", help="What to call it in listings, as 'laptop'.")
@click.option(
    "--expires",
    metavar="WHEN",
    type=MomentParam(),
    help="Until when it is good, as +90d or 2027-01-31T12:00:00Z.  [default: until it is revoked]",
)
@idempotency_option
@json_option
@server_command
def create(
    *,
    client: CommandClient,
    user: str,
    role: str,
    projects: tuple[str, ...],
    default_project: str,
    name: str,
    expires: str | None,
    idempotency_key: str,
    as_json: bool,
) -> None:
    """Make a token, and write it to stdout: it is told this once.

    Keep it as LONGSHORE_TOKEN.
    """
    body = {
        "user": user,
        "role": role,
        "projects": list(projects),
        "default_project": default_project,
        "name": name,
        "expires_at": expires,
    }
    try:
        document = client.send("POST", "/v1/tokens", body, idempotency_key=idempotency_key)
    except CommandFailure as failure:
        raise _with_way_out(failure) from failure
    made = read(document, NewTokenAnswer)
    if as_json:
        output.print_json(document)
        return
    until = f", good until {made.expires_at}" if made.expires_at else ""
    output.say(f"{made.id}: {made.role} {made.user}{_in_projects(made)}{until}")
    click.echo(made.token)


def _with_way_out(failure: CommandFailure) -> CommandFailure:
    """Return what a person is told where a token was made whose text nobody was told."""
    lost = _TOKEN_ID.search(failure.sentence) if failure.status == 409 else None
    if lost is None:
        return failure
    return CommandFailure(
        f"the token {lost[0]} was made, and the answer with its text was lost",
        remedy=f"Revoke it with 'longshore token revoke {lost[0]}', and make another",
        status=failure.status,
    )


@token.command("list")
@click.option("--user", default="", help="Only those of this user.")
@click.option(
    "--state",
    type=click.Choice(("active", "expired", "revoked")),
    help="Only those in this state.",
)
@json_option
@server_command
def list_them(*, client: CommandClient, user: str, state: str | None, as_json: bool) -> None:
    """List tokens, without what lets people in."""
    query = [(name, value) for name, value in (("user", user), ("state", state or "")) if value]
    document = client.whole("/v1/tokens", query, LIMIT_MAX)
    if as_json:
        output.print_json(document)
        return
    found = read(document, TokenList).items
    if not found:
        click.echo("there are no such tokens")
        return
    output.print_table(
        ("TOKEN", "USER", "ROLE", "PROJECTS", "STATE", "LAST USED", "EXPIRES", "NAME"),
        [
            (
                each.id,
                each.user,
                each.role,
                ",".join(each.projects) or "-",
                each.state,
                times.age(each.last_used_at) if each.last_used_at else "never",
                each.expires_at or "never",
                each.name,
            )
            for each in found
        ],
    )


@token.command("revoke")
@click.argument("token_ids", metavar="TOKEN...", nargs=-1, required=True)
@server_command
def revoke(*, client: CommandClient, token_ids: tuple[str, ...]) -> None:
    """Let nobody in with these tokens any more; TOKEN is an id ('longshore token list')."""
    for each in token_ids:
        answer = read(client.send("POST", token_path(each, "/revoke"), {}), TokenAnswer)
        click.echo(output.safe(f"{answer.id} of {answer.user} is revoked"))


@click.command()
@json_option
@server_command
def whoami(*, client: CommandClient, as_json: bool) -> None:
    """Tell who you are to the server, and what you see."""
    document = client.get("/v1/whoami")
    if as_json:
        output.print_json(document)
        return
    me = read(document, CallerAnswer)
    seen = "all projects" if me.role == "admin" else ", ".join(me.projects) or "no project"
    click.echo(output.safe(f"{me.user}: {me.role}, sees {seen} (by {_door(me)})"))


def _door(me: CallerAnswer) -> str:
    match me.door:
        case "open":
            return "open mode: everybody on the server's machine is an admin"
        case "socket":
            return "the Unix socket of the server's machine"
        case "token":
            until = f", good until {me.until}" if me.until else ""
            return f"token {me.token}{until}"
        case other:
            return other


def _in_projects(made: TokenAnswer) -> str:
    return f" in {', '.join(made.projects)}" if made.projects else ""
