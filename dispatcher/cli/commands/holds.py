"""`longshore holds`: what keeps instances from being created."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.explain import HoldAnswer, HoldsAnswer, LimitAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.options import json_option, server_command


@click.command()
@json_option
@server_command
def holds(*, client: CommandClient, as_json: bool) -> None:
    """Show what keeps instances from being created: holds with their ends, and limits.

    Each limit has the name of its setting.
    """
    document = client.get("/v1/holds")
    if as_json:
        output.print_json(document)
        return
    seen = read(document, HoldsAnswer)
    if seen.holds:
        output.print_table(
            ("CAUSE", "OF", "UNTIL", "WHY"),
            [(each.cause, _of(each), each.until or "", each.message) for each in seen.holds],
            wrap=("WHY",),
        )
    else:
        click.echo("no creates are held")
    output.print_table(
        ("SETTING", "WHOSE", "USED", "LIMIT", ""), [_row(each) for each in seen.limits]
    )


def _of(hold: HoldAnswer) -> str:
    return hold.instance_type or hold.quota_group or "all"


def _row(limit: LimitAnswer) -> tuple[str, ...]:
    doing = "reached" if limit.reached else ""
    return (
        limit.name,
        limit.whose or "",
        "" if limit.used is None else f"{limit.used:g}",
        f"{limit.limit:g}",
        "something waits for it" if limit.blocking else doing,
    )
