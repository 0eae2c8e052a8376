"""`longshore ps` and `show`: look at containers, and at one job."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import chain

import click
import msgspec

from longshore.dispatcher.api.schemas.containers import (
    AttemptAnswer,
    ConstraintsAnswer,
    ContainerAnswer,
    GpusAnswer,
    RetriesAnswer,
)
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import container_words, job_words, output, times
from longshore.dispatcher.cli.answers import (
    CONTAINER_STATES,
    UNFINISHED_STATES,
    is_final,
    read,
    read_awaited,
)
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.ids import container_path, is_job, job_path, path_of
from longshore.dispatcher.cli.options import WholeNumber, json_option, server_command
from longshore.dispatcher.cli.render.job_render import print_job
from longshore.dispatcher.cli.render.job_runs import print_runs
from longshore.dispatcher.cli.usage_words import usage_fields

PS_LIMIT = 500
PS_LIMIT_MAX = 1_000_000


PS_COLUMNS = output.Columns(
    names=("ID", "NAME", "STATE", "PRIO", "CPUS", "MEMORY", "USER", "AGE", "EXIT", "WHERE/WHY"),
    row=lambda item: ps_row(read(item, ContainerAnswer)),
    wrap=("WHERE/WHY",),
)


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Include those that have ended.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(CONTAINER_STATES),
    help="Only those in this state; repeat for several.",
)
@click.option("--user", default="", metavar="USER", help="Only this user's.")
@click.option("--project", default="", metavar="PROJECT", help="Only this project's.")
@click.option("--job", "job_id", default="", metavar="ID", help="Only this job's.")
@click.option(
    "--parent", default="", metavar="ID", help="Only what container ID submitted from inside."
)
@click.option("--task", default="", metavar="NAME", help="With --job: only this task's.")
@click.option(
    "--index",
    "array_index",
    type=WholeNumber(0),
    metavar="N",
    help="With --job: only this array index.",
)
@click.option(
    "--limit",
    type=WholeNumber(1, PS_LIMIT_MAX),
    metavar="N",
    default=PS_LIMIT,
    show_default=True,
    help="Show at most this many, newest first.",
)
@json_option
@server_command
def ps(
    *,
    client: CommandClient,
    everything: bool,
    states: tuple[str, ...],
    user: str,
    project: str,
    job_id: str,
    parent: str,
    task: str,
    array_index: int | None,
    limit: int,
    as_json: bool,
) -> None:
    """List containers that have not ended yet, newest first.

    With --job all of that job, with --parent all that a container submitted, also those that have
    ended.
    """
    if not job_id and (task or array_index is not None):
        raise click.UsageError("--task and --index choose containers of a job: name it by --job.")
    wanted = states or (() if everything or job_id or parent else UNFINISHED_STATES)
    filters = {"user": user, "project": project, "job": job_id, "parent": parent, "task": task}
    query = [("state", state) for state in wanted]
    query += [(name, value) for name, value in filters.items() if value]
    if array_index is not None:
        query.append(("array_index", str(array_index)))
    items = client.pages("/v1/containers", query, limit + 1)
    first = next(items, None)
    if first is None:
        # Of what does not exist there is nothing to list, and the answer says so.
        named = [job_path(job_id)] if job_id else []
        named += [container_path(parent)] if parent else []
        for path in named:
            client.get(path)
    items = items if first is None else chain([first], items)
    if output.print_items(items, PS_COLUMNS, most=limit, as_json=as_json):
        output.say(f"there are more; these are the newest {limit} (--limit)")


def ps_row(seen: ContainerAnswer) -> tuple[str, ...]:
    """Return a container's cells in the listing."""
    return (
        seen.id,
        container_words.title(seen),
        container_words.shown_state(seen),
        str(seen.priority),
        f"{seen.cpus:g}",
        output.size(seen.memory),
        seen.user,
        times.age(seen.created_at),
        "" if seen.exit_code is None else str(seen.exit_code),
        container_words.short_note(seen),
    )


@click.command()
@click.argument("identifier", metavar="ID")
@click.option("--costs", is_flag=True, help="Of a job also what each element of its arrays cost.")
@json_option
@server_command
def show(*, client: CommandClient, identifier: str, costs: bool, as_json: bool) -> None:
    """Show everything about a container or a job; of one that has runs, the newest of them."""
    of_job = (("costs", "index" if costs else "task"),)
    of_container = (("tree", "true"), ("costs", "true"))
    raw = client.get(path_of(identifier), of_job if is_job(identifier) else of_container)
    if as_json:
        output.print_json(raw)
        return
    seen = read_awaited(identifier, raw)
    if isinstance(seen, JobAnswer):
        print_job(seen)
        if job_words.is_template(seen):
            print_runs(client, seen.id)
    else:
        print_container(seen)


def print_container(seen: ContainerAnswer) -> None:
    """Write everything about a container."""
    output.print_fields(show_fields(seen))
    if seen.attempts:
        click.echo()
        revised = any(attempt.revision for attempt in seen.attempts)
        output.print_table(
            attempt_columns(revised=revised),
            [attempt_row(attempt, revised=revised) for attempt in seen.attempts],
            wrap=("REASON",),
        )
    if earlier := container_words.earlier_attempts(seen):
        click.echo(f"{earlier} earlier attempts are not shown")


def show_fields(seen: ContainerAnswer) -> list[tuple[str, str]]:
    """Return what `show` tells of a container, as names and values."""
    ended = seen.reason.message if seen.reason else ""
    ends = container_words.cancelling(seen)
    # What is queued has no instance; that of its last attempt stands in the table below.
    placed = seen.state != "queued"
    last = seen.attempts[-1] if seen.attempts else None
    return [
        ("id", seen.id),
        ("name", seen.name),
        ("state", container_words.shown_state(seen) + (f" ({ends})" if ends else "")),
        ("exit code", "" if seen.exit_code is None else str(seen.exit_code)),
        ("reason", ended),
        ("job", seen.job or ""),
        ("task", seen.task or ""),
        ("array index", "" if seen.array_index is None else str(seen.array_index)),
        ("for instance", seen.for_instance or ""),
        ("waiting", seen.waiting or ""),
        ("in doubt", seen.doubt or ""),
        ("log", seen.log_problem or ""),
        ("warning", (last.warning or "") if last else ""),
        ("command", shlex.join(seen.command)),
        ("image", seen.image),
        ("image digest", (last.image_digest or "") if last else ""),
        ("init", "" if seen.init else "none"),
        ("entrypoint", _entrypoint(seen.entrypoint)),
        ("cpus", f"{seen.cpus:g}"),
        ("memory", output.size(seen.memory)),
        ("disk", output.size(seen.disk)),
        ("gpus", _gpus(seen.gpus)),
        ("resources", _pairs(seen.resources)),
        ("runs only on", _constraints(seen.constraints)),
        ("retries", _retries(seen.retries)),
        (
            "after",
            container_words.dependency_phrases(seen.after, seen.job or ""),
        ),
        ("not before", times.moment(seen.not_before)),
        ("time limit", output.duration(seen.time_limit_s)),
        ("grace period", output.duration(seen.grace_period_s)),
        ("supervisor", "yes" if seen.supervisor else ""),
        ("api inside", "yes" if seen.api else ""),
        ("submitted by", seen.parent or ""),
        ("labels", _pairs(seen.labels)),
        ("priority", str(seen.priority)),
        ("user", seen.user),
        ("project", seen.project),
        ("created", times.moment(seen.created_at)),
        ("started", times.moment(container_words.attempt_started_at(seen))),
        ("finished", times.moment(seen.finished_at)),
        ("ran for", output.duration(container_words.ran_for_s(seen))),
        ("instance", (placed and seen.instance) or ""),
        ("instance type", (placed and seen.instance_type) or ""),
        *usage_fields(last),
        ("cost", output.money(seen.cost_usd) if seen.cost_usd else ""),
        ("cost so far", cost_so_far(seen)),
        (
            "cost of tree",
            output.money(seen.cost_of_tree_usd) if seen.cost_of_tree_usd else "",
        ),
    ]


def cost_so_far(seen: ContainerAnswer) -> str:
    """Return what a container that goes on has cost up to now, "" where `cost` tells it all."""
    if is_final(seen) or seen.cost_so_far_usd is msgspec.UNSET:
        return ""
    if seen.cost_so_far_usd is None:
        return "too much else was on its instances to reckon it here: see longshore cost"
    return output.money(seen.cost_so_far_usd) if seen.cost_so_far_usd else ""


def _entrypoint(words: tuple[str, ...] | None) -> str:
    """Return what takes the place of the image's, "" where nothing does."""
    if words is None:
        return ""
    return shlex.join(words) if words else "none"


def _pairs(entries: Mapping[str, object]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(entries.items()))


def _gpus(gpus: int | GpusAnswer) -> str:
    if not isinstance(gpus, GpusAnswer):
        return str(gpus) if gpus else ""
    memory = f"{output.size(gpus.memory)} each" if gpus.memory else ""
    return ", ".join(part for part in (str(gpus.count), gpus.model, memory) if part)


def _constraints(wanted: ConstraintsAnswer) -> str:
    price = wanted.max_price_per_hour
    parts = (
        " or ".join(wanted.instance_types),
        _pairs(wanted.labels),
        {"required": "preemptible", "forbidden": "not preemptible"}.get(wanted.preemptible, ""),
        "" if price is None else f"at most ${price}/h",
    )
    return ", ".join(part for part in parts if part)


def _retries(retries: RetriesAnswer) -> str:
    codes = f" {'/'.join(map(str, retries.exit_codes))}" if retries.exit_codes else ""
    first = f", first after {retries.first_delay_s:g} s" if retries.first_delay_s else ""
    told = f"{retries.max} ({', '.join(retries.on)}{codes}{first}, {retries.delay_s:g} s apart)"
    tried_again = [told] if retries.max else []
    return ", ".join(tried_again + ([] if retries.lost else ["not if it is lost"]))


def attempt_columns(*, revised: bool) -> tuple[str, ...]:
    """Return the names of an attempt's cells."""
    what = ("REVISION",) if revised else ()
    return ("ATTEMPT", *what, "INSTANCE", "TYPE", "OUTCOME", "EXIT", "RAN", "COST", "REASON")


def attempt_row(attempt: AttemptAnswer, *, revised: bool) -> tuple[str, ...]:
    """Return an attempt's cells, with the revision of its job at which it runs if `revised`."""
    ran_s = times.span_s(attempt.started_at, attempt.finished_at)
    return (
        attempt.id or str(attempt.number),
        *((str(attempt.revision or 0),) if revised else ()),
        attempt.instance or "",
        attempt.instance_type or "",
        attempt.outcome or "",
        "" if attempt.exit_code is None else str(attempt.exit_code),
        output.duration(ran_s),
        output.money(attempt.cost_usd) if attempt.cost_usd else "",
        attempt.reason.message if attempt.reason else "",
    )
