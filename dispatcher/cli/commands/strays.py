"""`longshore strays`: what another store has started, and what becomes of it."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.instances import StrayList
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import LIMIT_MAX, CommandClient
from longshore.dispatcher.cli.ids import instance_path
from longshore.dispatcher.cli.options import PlainGroup, json_option, server_command


@click.group(cls=PlainGroup)
def strays() -> None:
    """See and decide about what runs and another store may know."""


@strays.command("list")
@json_option
@server_command
def list_them(*, client: CommandClient, as_json: bool) -> None:
    """List what runs on instances, and was started with another store than the server's.

    It is kept until you say what becomes of it, and its instance with it.
    """
    document = client.whole("/v1/strays", (), LIMIT_MAX)
    seen = read(document, StrayList)
    if as_json:
        output.print_json(document)
    elif seen.items:
        output.print_table(
            ("INSTANCE", "ATTEMPT", "CONTAINER", "FOR", "FATE"),
            [
                (
                    each.instance,
                    each.attempt,
                    each.container or "",
                    times.age(each.found_at),
                    each.fate,
                )
                for each in seen.items
            ],
        )
    else:
        click.echo("nothing of another store is kept")


def _decision(name: str, explained: str, told: str) -> None:
    @strays.command(name, help=explained)
    @click.argument("instance_id", metavar="INSTANCE")
    @click.argument("attempts", metavar="[ATTEMPT]...", nargs=-1)
    @server_command
    def decide(*, client: CommandClient, instance_id: str, attempts: tuple[str, ...]) -> None:
        answer = client.send(
            "POST",
            instance_path(instance_id, "/strays"),
            {"fate": name, "attempts": list(attempts)},
        )
        for each in read(answer, StrayList).items:
            click.echo(output.safe(f"{each.attempt} on {each.instance} {told}"))


_decision(
    "kill",
    "End what another store has started on INSTANCE: all of it, or the ATTEMPTs named.",
    "is being ended",
)
_decision(
    "adopt",
    "Leave it on INSTANCE to its own end, and count it as no leak any more.",
    "is left to its own end",
)
