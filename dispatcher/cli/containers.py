"""`longshore ps`, `show`, `wait`, `cancel`, `priority`: look at containers and steer them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import click

from dispatcher.cli import output
from dispatcher.cli.client import Client, container_path
from dispatcher.cli.failure import Failure
from dispatcher.cli.options import PRIORITY_MAX, Number, WholeNumber, json_option, server_command
from dispatcher.cli.progress import outcome_line
from dispatcher.cli.views import (
    CONTAINER_STATES,
    UNFINISHED_STATES,
    AttemptView,
    ConstraintsView,
    ContainerView,
    GpusView,
    RetriesView,
    view,
)
from dispatcher.cli.waiting import await_containers, status_of

PS_LIMIT = 500
PS_LIMIT_MAX = 1_000_000


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that have ended.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(CONTAINER_STATES),
    help="Only in this state, repeated for several.",
)
@click.option("--user", default="", metavar="USER", help="Only of this user.")
@click.option("--project", default="", metavar="PROJECT", help="Only of this project.")
@click.option(
    "--limit",
    type=WholeNumber(1, PS_LIMIT_MAX),
    metavar="N",
    default=PS_LIMIT,
    show_default=True,
    help="At most so many, the newest first.",
)
@json_option
@server_command
def ps(
    *,
    client: Client,
    everything: bool,
    states: tuple[str, ...],
    user: str,
    project: str,
    limit: int,
    as_json: bool,
) -> None:
    """List containers that have not ended yet, newest first."""
    wanted = states or (() if everything else UNFINISHED_STATES)
    query = [("state", state) for state in wanted]
    query += [(name, value) for name, value in (("user", user), ("project", project)) if value]
    items = list(client.pages("/v1/containers", query, limit + 1))
    shown, more = items[:limit], len(items) > limit
    output.listing(
        as_json,
        shown,
        lambda: output.print_table(
            ("ID", "NAME", "STATE", "PRIO", "CPUS", "MEMORY", "USER", "AGE", "EXIT", "WHERE/WHY"),
            [ps_row(view(item, ContainerView)) for item in shown],
            wrap=("WHERE/WHY",),
        ),
    )
    if more:
        output.say(f"there are more; these are the newest {limit} (--limit)")


def ps_row(seen: ContainerView) -> tuple[str, ...]:
    """Return a container's cells in the listing."""
    return (
        seen.id,
        seen.name,
        seen.state,
        str(seen.priority),
        f"{seen.cpus:g}",
        output.size(seen.memory),
        seen.user,
        output.age(seen.created_at),
        "" if seen.exit_code is None else str(seen.exit_code),
        seen.short_note(),
    )


@click.command()
@click.argument("container_id", metavar="ID")
@json_option
@server_command
def show(*, client: Client, container_id: str, as_json: bool) -> None:
    """Show everything about container ID, with all its attempts."""
    raw = client.get(container_path(container_id))
    if as_json:
        output.print_json(raw)
        return
    seen = view(raw, ContainerView)
    output.print_fields(show_fields(seen))
    if seen.attempts:
        click.echo()
        output.print_table(
            ("ATTEMPT", "INSTANCE", "TYPE", "OUTCOME", "EXIT", "RAN", "REASON"),
            [attempt_row(attempt) for attempt in seen.attempts],
            wrap=("REASON",),
        )


def show_fields(seen: ContainerView) -> list[tuple[str, str]]:
    """Return what `show` tells of a container, as names and values."""
    ended = seen.reason.message if seen.reason else ""
    # What is queued has no instance; that of its last attempt stands in the table below.
    placed = seen.state != "queued"
    return [
        ("id", seen.id),
        ("name", seen.name),
        ("state", seen.state),
        ("exit code", "" if seen.exit_code is None else str(seen.exit_code)),
        ("reason", ended),
        ("waiting", seen.waiting or ""),
        ("in doubt", seen.doubt or ""),
        ("command", shlex.join(seen.command)),
        ("image", seen.image),
        ("cpus", f"{seen.cpus:g}"),
        ("memory", output.size(seen.memory)),
        ("disk", output.size(seen.disk)),
        ("gpus", _gpus(seen.gpus)),
        ("resources", _pairs(seen.resources)),
        ("runs only on", _constraints(seen.constraints)),
        ("retries", _retries(seen.retries)),
        ("supervisor", "yes" if seen.supervisor else ""),
        ("labels", _pairs(seen.labels)),
        ("priority", str(seen.priority)),
        ("user", seen.user),
        ("project", seen.project),
        ("created", output.moment(seen.created_at)),
        ("started", output.moment(seen.attempt_started_at)),
        ("finished", output.moment(seen.finished_at)),
        ("ran for", output.duration(seen.ran_for_s())),
        ("instance", (placed and seen.instance) or ""),
        ("instance type", (placed and seen.instance_type) or ""),
        ("cost", output.money(seen.cost_usd) if seen.cost_usd else ""),
    ]


def _pairs(entries: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(entries.items()))


def _gpus(gpus: int | GpusView) -> str:
    if not isinstance(gpus, GpusView):
        return str(gpus) if gpus else ""
    memory = f"{output.size(gpus.memory)} each" if gpus.memory else ""
    return ", ".join(part for part in (str(gpus.count), gpus.model, memory) if part)


def _constraints(wanted: ConstraintsView) -> str:
    price = wanted.max_price_per_hour
    parts = (
        " or ".join(wanted.instance_types),
        _pairs(wanted.labels),
        {"required": "preemptible", "forbidden": "not preemptible"}.get(wanted.preemptible, ""),
        "" if price is None else f"at most ${price}/h",
    )
    return ", ".join(part for part in parts if part)


def _retries(retries: RetriesView) -> str:
    return f"{retries.max} ({', '.join(retries.on)})" if retries.max else ""


def attempt_row(attempt: AttemptView) -> tuple[str, ...]:
    """Return an attempt's cells."""
    ran_s = None
    if attempt.started_at is not None and attempt.finished_at is not None:
        ran_s = (attempt.finished_at - attempt.started_at).total_seconds()
    return (
        attempt.id or str(attempt.number),
        attempt.instance or "",
        attempt.instance_type or "",
        attempt.outcome or "",
        "" if attempt.exit_code is None else str(attempt.exit_code),
        output.duration(ran_s),
        attempt.reason.message if attempt.reason else "",
    )


@click.command()
@click.argument("container_ids", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--timeout",
    "timeout_s",
    type=Number(least=0),
    metavar="SECONDS",
    help="Give up after this long, with exit code 124; the containers go on.",
)
@json_option
@server_command
def wait(
    *, client: Client, container_ids: tuple[str, ...], timeout_s: float | None, as_json: bool
) -> int:
    """Wait until containers have ended, and exit with the container's code.

    Of several, the first code that is not 0 in the order given. A container that ended without a
    code and did not succeed counts as 1.
    """
    ended, raw = await_containers(client, container_ids, timeout_s)
    if as_json:
        output.print_json({"items": raw})
    else:
        for each in ended:
            click.echo(outcome_line(each))
    return status_of(ended)


@click.command()
@click.argument("container_ids", metavar="ID...", nargs=-1, required=True)
@server_command
def cancel(*, client: Client, container_ids: tuple[str, ...]) -> int:
    """Cancel containers; one that runs gets TERM, and KILL if it does not end."""
    status = 0
    for container_id in dict.fromkeys(container_ids):
        try:
            client.send("POST", container_path(container_id, "/cancel"), {})
        except Failure as failure:
            if not 400 <= failure.status < 500 or failure.status in {401, 403}:
                raise
            # One that has ended already must not keep the others alive.
            click.echo("\n".join(failure.lines()), err=True)
            status = failure.exit_code
        else:
            click.echo(output.safe(f"{container_id} is being cancelled"))
    return status


@click.command()
@click.argument("container_id", metavar="ID")
@click.argument("value", metavar="N", type=WholeNumber(0, PRIORITY_MAX))
@server_command
def priority(*, client: Client, container_id: str, value: int) -> None:
    """Give container ID priority N: 1000 goes first, 0 is held back (a running one stops)."""
    answer = client.send("PATCH", container_path(container_id), {"priority": value})
    seen = view(answer, ContainerView)
    click.echo(output.safe(f"{seen.id} has priority {seen.priority}"))
