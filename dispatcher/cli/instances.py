"""`longshore instances` and `longshore instance`: what admins see and do."""

from __future__ import annotations

import click

from dispatcher.cli import output
from dispatcher.cli.client import Client
from dispatcher.cli.options import PlainGroup, json_option, server_command
from dispatcher.cli.references import instance_path
from dispatcher.cli.views import InstancesView, InstanceView, view
from pool.tags import is_stand_in


@click.command()
@json_option
@server_command
def instances(*, client: Client, as_json: bool) -> None:
    """List the instances that there are.

    Says so on stderr when there may be others: before the server's first listing of the cloud, and
    while its listings fail.
    """
    document = client.get("/v1/instances")
    seen = view(document, InstancesView)
    if as_json:
        output.print_json(document)
    else:
        output.print_table(
            ("ID", "TYPE", "STATE", "BEHAVIOR", "PRICE", "RUNNING", "AGE", "BUSY", "NOTE"),
            [instance_row(each) for each in seen.items],
            wrap=("NOTE",),
        )
    if not seen.complete:
        more = "others" if seen.items else "instances"
        output.say(
            f"there may be {more}: {output.no_current_listing(seen.listed_at)}. "
            f"{client.url}/health/ready tells why"
        )


def instance_row(seen: InstanceView) -> tuple[str, ...]:
    """Return an instance's cells in the listing."""
    missing = f"missing for {output.age(seen.missing_since)}" if seen.missing_since else ""
    taken_back = f"taken back at {seen.taken_back_at}" if seen.taken_back_at else ""
    short = f"has only {seen.shortfall}" if seen.shortfall else ""
    notes = (missing, taken_back, seen.broken, short, seen.last_error)
    return (
        seen.id,
        seen.instance_type,
        seen.state,
        _behavior(seen),
        output.price(seen.price_usd_per_hour),
        str(len(seen.running)),
        output.age(seen.created_at),
        "now" if seen.running else output.age(seen.last_busy_at),
        output.cut("; ".join(x for x in notes if x)),
    )


def _behavior(seen: InstanceView) -> str:
    """Return what an instance does when it is idle: one of no use takes no work, and is drained."""
    why = _drained_because(seen)
    return f"drain ({why})" if why else seen.idle_behavior


def _drained_because(seen: InstanceView) -> str:
    """Return why an instance is drained although it is set to run, "" when it is not."""
    if seen.idle_behavior != "run" or seen.state == "shutdown":
        return ""
    if seen.broken:
        return "broken"
    return "type not configured" if is_stand_in(seen.instance_type) else ""


@click.group(cls=PlainGroup)
def instance() -> None:
    """Steer one instance."""


def _behavior_command(name: str, explained: str) -> None:
    @instance.command(name, help=explained)
    @click.argument("instance_id", metavar="ID")
    @server_command
    def change(*, client: Client, instance_id: str) -> None:
        answer = client.send(
            "PUT", instance_path(instance_id, "/idle-behavior"), {"idle_behavior": name}
        )
        seen = view(answer, InstanceView)
        why = _drained_because(seen)
        besides = f", and drains all the same ({why}): hold it to keep it" if why else ""
        if seen.state == "shutdown":
            besides = ", and is being shut down: nothing keeps it"
        click.echo(output.safe(f"{seen.id} is set to {seen.idle_behavior or name}{besides}"))


_behavior_command("run", "Let instance ID work again, and end when it is idle for long.")
_behavior_command("hold", "Give instance ID no new work, and never shut it down.")
_behavior_command("drain", "Give instance ID no new work, and shut it down when it is empty.")


@instance.command()
@click.argument("instance_id", metavar="ID")
@click.option("--reason", default="", metavar="TEXT", help="Why, for those whose work it ends.")
@server_command
def kill(*, client: Client, instance_id: str, reason: str) -> None:
    """Destroy instance ID now, whatever runs on it."""
    client.send("POST", instance_path(instance_id, "/kill"), {"reason": reason})
    click.echo(output.safe(f"{instance_id} is being destroyed"))
