"""`longshore audit`: who was to change what, and what came of it."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.tokens import AuditEntryAnswer, AuditList
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import LIMIT_MAX, CommandClient
from longshore.dispatcher.cli.durations import MomentParam
from longshore.dispatcher.cli.options import WholeNumber, json_option, server_command

_SHOWN = 50


@click.command()
@click.option("--user", default="", help="Only what this user did.")
@click.option("--token", "token_id", default="", help="Only what was done with this token.")
@click.option(
    "--since",
    metavar="WHEN",
    type=MomentParam(),
    help="Only what was done from then on, as 2026-01-31T12:00:00Z.",
)
@click.option(
    "--limit",
    type=WholeNumber(1, LIMIT_MAX),
    default=_SHOWN,
    show_default=True,
    help="How many entries, the newest.",
)
@json_option
@server_command
def audit(
    *,
    client: CommandClient,
    user: str,
    token_id: str,
    since: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List who was to change what, newest first; for admins."""
    query = [("user", user), ("token", token_id), ("since", since or "")]
    document = client.whole("/v1/audit", [each for each in query if each[1]], limit)
    listed = read(document, AuditList)
    if listed.next_cursor:
        output.say(f"there are more; these are the newest {limit} (--limit)")
    if as_json:
        output.print_json(document)
        return
    found = listed.items
    if not found:
        click.echo("nothing was to be changed")
        return
    output.print_table(
        ("AT", "USER", "BY", "FROM", "WHAT", "STATUS"),
        [
            (
                times.moment(each.at),
                each.user,
                each.token or each.door,
                each.address,
                _what(each),
                "unknown" if each.status is None else str(each.status),
            )
            for each in found
        ],
    )


def _what(entry: AuditEntryAnswer) -> str:
    made = f" -> {entry.made}" if entry.made else ""
    detail = f" ({entry.detail})" if entry.detail else ""
    return f"{entry.action}{made}{detail}"
