"""`longshore decisions`: what was decided lately, and why."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.overview import DecisionList
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import LIMIT_MAX, CommandClient
from longshore.dispatcher.cli.options import WholeNumber, json_option, server_command

_SHOWN = 50
_KINDS = ("bought", "shut_down", "creates_held", "made_way")


@click.command()
@click.option(
    "--kind", type=click.Choice(_KINDS), multiple=True, help="Only those of this kind; repeatable."
)
@click.option(
    "--limit",
    type=WholeNumber(1, LIMIT_MAX),
    default=_SHOWN,
    show_default=True,
    help="How many, the newest.",
)
@json_option
@server_command
def decisions(*, client: CommandClient, kind: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List what was decided lately of instances, and who made way for others; for admins."""
    query = [("kind", ",".join(kind))] if kind else []
    document = client.whole("/v1/decisions", query, limit)
    if as_json:
        output.print_json(document)
        return
    listed = read(document, DecisionList)
    if not listed.items:
        since = times.moment(listed.recorded_since)
        click.echo(f"nothing was decided since {since}, when the server began")
        return
    output.print_table(
        ("AT", "WHAT", "WHY"),
        [(times.moment(each.at), each.kind, each.message) for each in listed.items],
        wrap=("WHY",),
    )
