"""`longshore instances` and `longshore instance`: what admins see and do."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.instances import InstanceAnswer, InstanceList
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient, Json
from longshore.dispatcher.cli.durations import MomentParam
from longshore.dispatcher.cli.ids import instance_path
from longshore.dispatcher.cli.options import PlainGroup, WholeNumber, json_option, server_command
from longshore.pool.tags import is_stand_in

INSTANCES_LIMIT_MAX = 1_000_000
GONE_LIMIT = 500
GONE_COLUMNS = output.Columns(
    names=("ID", "TYPE", "PRICE", "CREATED", "GONE", "WHY"),
    row=lambda item: gone_row(read(item, InstanceAnswer)),
    wrap=("WHY",),
)


@click.command()
@click.option(
    "--gone",
    is_flag=True,
    help="Show those that are gone instead, latest first, and why they went.",
)
@click.option(
    "--limit",
    type=WholeNumber(1, INSTANCES_LIMIT_MAX),
    metavar="N",
    help=f"Show at most this many; by default all, or the last {GONE_LIMIT} that are gone.",
)
@json_option
@server_command
def instances(*, client: CommandClient, gone: bool, limit: int | None, as_json: bool) -> None:
    """List the instances that there are.

    Says so on stderr when there may be others: before the server's first listing of the cloud, and
    while its listings fail.
    """
    if gone:
        _list_gone(client, limit or GONE_LIMIT, as_json=as_json)
    else:
        _list_known(client, limit or INSTANCES_LIMIT_MAX, as_json=as_json)


def _list_gone(client: CommandClient, limit: int, *, as_json: bool) -> None:
    items = client.pages("/v1/instances", [("gone", "true")], limit + 1)
    if output.print_items(items, GONE_COLUMNS, most=limit, as_json=as_json):
        output.say(f"there are more; these are the last {limit} that went (--limit)")


def gone_row(seen: InstanceAnswer) -> tuple[str, ...]:
    """Return the cells of an instance that is gone."""
    return (
        seen.id,
        seen.instance_type,
        output.price(seen.price_usd_per_hour),
        times.moment(seen.created_at),
        times.moment(seen.gone_at),
        output.cut(seen.last_error or ""),
    )


def _list_known(client: CommandClient, limit: int, *, as_json: bool) -> None:
    document = client.whole("/v1/instances", (), limit)
    seen = read(document, InstanceList)
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
            f"there may be {more}: {times.no_current_listing(seen.listed_at)}. "
            "'longshore health' tells why"
        )
    if seen.next_cursor:
        output.say(f"there are more; these are the first {limit} by id (--limit)")


def instance_row(seen: InstanceAnswer) -> tuple[str, ...]:
    """Return an instance's cells in the listing."""
    missing = f"missing for {times.age(seen.missing_since)}" if seen.missing_since else ""
    taken_back = f"taken back at {seen.taken_back_at}" if seen.taken_back_at else ""
    short = f"has only {seen.shortfall}" if seen.shortfall else ""
    said = (missing, _asked(seen), seen.cloud_says, taken_back, seen.broken, short)
    told = (*said, seen.last_error, seen.advice)
    return (
        seen.id,
        seen.instance_type,
        seen.state,
        _behavior(seen),
        output.price(seen.price_usd_per_hour),
        str(len(seen.running)),
        times.age(seen.created_at),
        # Daemons keep no instance busy: it is idle while nothing else runs there.
        "now" if seen.state == "running" else times.age(seen.last_busy_at),
        output.cut("; ".join(each for each in told if each)),
    )


def _behavior(seen: InstanceAnswer) -> str:
    """Return what an instance does when it is idle: one of no use takes no work, and is drained."""
    why = _drained_because(seen)
    return f"drain ({why})" if why else seen.idle_behavior


def _asked(seen: InstanceAnswer) -> str:
    """Return who wants its idle behavior, since when, until when and why; "" for nobody."""
    note = seen.idle_behavior_note
    if note is None or (seen.idle_behavior == "run" and not note.reason):
        return ""
    who = f"{seen.idle_behavior} by {note.by or 'the server'} since {times.moment(note.at)}"
    until = "" if note.until is None else f" until {times.moment(note.until)}"
    return f"{who}{until}{': ' if note.reason else ''}{note.reason}"


def _drained_because(seen: InstanceAnswer) -> str:
    """Return why an instance is drained although it is set to run, "" when it is not."""
    if seen.idle_behavior != "run" or seen.state == "shutdown":
        return ""
    if seen.broken:
        return "broken"
    return "type not configured" if is_stand_in(seen.instance_type) else ""


@click.group(cls=PlainGroup)
def instance() -> None:
    """Show or steer one instance."""


@instance.command()
@click.argument("instance_id", metavar="ID")
@json_option
@server_command
def show(*, client: CommandClient, instance_id: str, as_json: bool) -> None:
    """Show everything about instance ID; of one that is gone when, and why."""
    raw = client.get(instance_path(instance_id))
    if as_json:
        output.print_json(raw)
    else:
        output.print_fields(show_fields(read(raw, InstanceAnswer)))


def show_fields(seen: InstanceAnswer) -> list[tuple[str, str]]:
    """Return what `show` tells of an instance, as names and values."""
    gone = seen.gone_at is not None
    return [
        ("id", seen.id),
        ("state", seen.state),
        # Nobody keeps how one that is gone would have behaved.
        ("behavior", "" if gone else _behavior(seen)),
        ("asked for", "" if gone else _asked(seen)),
        ("address", seen.address),
        ("type", seen.instance_type),
        ("cloud's type", seen.provider_type),
        ("price", output.price(seen.price_usd_per_hour)),
        ("running", ", ".join(seen.running)),
        ("last container", seen.last_container or ""),
        ("created", times.moment(seen.created_at)),
        ("last busy", times.moment(seen.last_busy_at)),
        ("last heard of", times.moment(seen.last_contact_at)),
        ("missing since", times.moment(seen.missing_since)),
        ("taken back at", seen.taken_back_at or ""),
        ("gone", times.moment(seen.gone_at)),
        ("broken", seen.broken or ""),
        ("why it went" if gone else "last error", seen.last_error or ""),
    ]


def _behavior_command(name: str, explained: str, *, ends: bool = False) -> None:
    options = [
        click.argument("instance_id", metavar="ID"),
        click.option("--reason", default="", help="The reason, for whoever looks at it later."),
    ]
    if ends:
        until = "--until"
        told = "When it is to run again: +2h, or a moment like 2026-01-31T12:00:00Z."
        options.append(click.option(until, type=MomentParam(), help=told))

    @server_command
    def change(
        *, client: CommandClient, instance_id: str, reason: str, until: str | None = None
    ) -> None:
        body: Json = {"idle_behavior": name, "reason": reason}
        if until is not None:
            body["until"] = until
        answer = client.send("PUT", instance_path(instance_id, "/idle-behavior"), body)
        seen = read(answer, InstanceAnswer)
        why = _drained_because(seen)
        besides = f", and drains all the same ({why}): hold it to keep it" if why else ""
        note = seen.idle_behavior_note
        if note is not None and note.until is not None:
            besides = f" until {times.moment(note.until)}"
        if seen.state == "shutdown":
            besides = ", and is being shut down: nothing keeps it"
        click.echo(output.safe(f"{seen.id} is set to {seen.idle_behavior or name}{besides}"))

    command = change
    for each in reversed(options):
        command = each(command)
    instance.command(name, help=explained)(command)


_behavior_command(
    "run", "Let instance ID take work again, and shut it down once it has been idle for long."
)
_behavior_command("hold", "Give instance ID no new work, and never shut it down.", ends=True)
_behavior_command("drain", "Give instance ID no new work, and shut it down once it is empty.")


@instance.command()
@click.argument("instance_id", metavar="ID")
@click.option(
    "--reason", default="", metavar="TEXT", help="The reason, for those whose work it ends."
)
@server_command
def kill(*, client: CommandClient, instance_id: str, reason: str) -> None:
    """Destroy instance ID now, whatever runs on it."""
    client.send("POST", instance_path(instance_id, "/kill"), {"reason": reason})
    click.echo(output.safe(f"{instance_id} is being destroyed"))
