"""`longshore overview`: what goes on, in numbers."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.overview import OverviewAnswer
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.options import json_option, server_command


@click.command()
@json_option
@server_command
def overview(*, client: CommandClient, as_json: bool) -> None:
    """Show in numbers what goes on: containers by state, what waits and why.

    Admins are shown instances too, and what they cost an hour.
    """
    document = client.get("/v1/overview")
    if as_json:
        output.print_json(document)
        return
    seen = read(document, OverviewAnswer)
    output.print_fields(_fields(seen))
    if seen.waiting:
        output.print_table(
            ("WAITING", "CODE", "WHY", "UNTIL", "FOR EXAMPLE"),
            [
                (str(each.count), each.code, each.message, each.until or "", each.sample or "")
                for each in seen.waiting
            ],
            wrap=("WHY",),
        )


def _fields(seen: OverviewAnswer) -> list[tuple[str, str]]:
    there, ended = seen.containers, seen.ended
    told = [
        ("containers", f"{there.queued} queued, {there.locked} locked, {there.running} running"),
        (
            f"ended in {times.age(ended.since)}",
            f"{ended.succeeded} succeeded, {ended.failed} failed, {ended.cancelled} cancelled",
        ),
    ]
    if seen.waiting_since is not None:
        told.append(("longest wait", times.age(seen.waiting_since)))
    if seen.instances is not None:
        counts = [
            f"{each.count} {each.state}"
            + ("" if each.idle_behavior == "run" else f" ({each.idle_behavior})")
            for each in seen.instances.counts
        ]
        if seen.instances.creating:
            counts.append(f"{seen.instances.creating} being created")
        price = output.price(seen.instances.price_usd_per_hour)
        told.append(("instances", f"{', '.join(counts)}; {price}" if counts else "none"))
    return told
