"""`longshore wait`, `cancel`, `priority`, `hold`, `release`: stay with containers and jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import read_awaited
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.commands.waiting import NotEndedError, await_ended, status_of
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.ids import is_job, job_path, path_of
from longshore.dispatcher.cli.options import (
    Number,
    WholeNumber,
    json_option,
    server_command,
)
from longshore.dispatcher.cli.render.progress import outcome_line
from longshore.dispatcher.input.quantities import PRIORITY_MAX

_ENDED_BY_ITSELF = ("succeeded", "failed")


@click.command()
@click.argument("identifiers", metavar="ID...", nargs=-1, required=True)
@click.option(
    "--timeout",
    "timeout_s",
    type=Number(least=0),
    metavar="SECONDS",
    help="Stop waiting after this long, with exit code 124; what was waited for goes on.",
)
@json_option
@server_command
def wait(
    *, client: CommandClient, identifiers: tuple[str, ...], timeout_s: float | None, as_json: bool
) -> int:
    """Wait until containers or jobs have ended, and exit with their code.

    Of several, the first code that is not 0 in the order given. What ended without a code and did
    not succeed counts as 1; a job's code is the highest of its failed containers.
    """
    try:
        ended, raw = await_ended(client, identifiers, timeout_s)
    except NotEndedError as failure:
        if as_json:
            output.print_json({"items": failure.raw})
        raise
    if as_json:
        output.print_json({"items": raw})
    else:
        for each in ended:
            click.echo(outcome_line(each))
    return status_of(ended)


@click.command()
@click.argument("identifiers", metavar="ID...", nargs=-1, required=True)
@click.option("--tree", is_flag=True, help="Cancel all that these containers submitted, too.")
@server_command
def cancel(*, client: CommandClient, identifiers: tuple[str, ...], tree: bool) -> int:
    """Cancel containers and whole jobs.

    What runs gets TERM, and KILL if it does not end.
    """

    def cancel_one(identifier: str) -> str:
        if tree and is_job(identifier):
            raise CommandFailure(
                f"{identifier} is a job, and --tree is for containers",
                remedy=f"Cancel all of it with 'longshore cancel {identifier}'",
                exit_code=USAGE,
            )
        answer = client.send("POST", path_of(identifier, "/cancel"), {"tree": True} if tree else {})
        if tree and read_awaited(identifier, answer).state in _ENDED_BY_ITSELF:
            return f"{identifier} has ended already; all below it is being cancelled"
        return f"{identifier} is being cancelled" + (", with all below it" if tree else "")

    return _each(identifiers, cancel_one)


@click.command()
@click.argument("identifier", metavar="ID")
@click.argument("value", metavar="N", type=WholeNumber(0, PRIORITY_MAX))
@server_command
def priority(*, client: CommandClient, identifier: str, value: int) -> None:
    """Give ID, a container or all of a job, priority N.

    1000 goes first, 0 is held back (what runs stops).
    """
    answer = client.send("PATCH", path_of(identifier), {"priority": value})
    seen = read_awaited(identifier, answer)
    click.echo(output.safe(f"{seen.id} has priority {seen.priority}"))


@click.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@server_command
def hold(*, client: CommandClient, job_ids: tuple[str, ...]) -> int:
    """Let jobs start nothing new until they are released.

    What runs goes on.
    """
    return _set_held(client, job_ids, held=True)


@click.command()
@click.argument("job_ids", metavar="ID...", nargs=-1, required=True)
@server_command
def release(*, client: CommandClient, job_ids: tuple[str, ...]) -> int:
    """Let jobs that are held start again."""
    return _set_held(client, job_ids, held=False)


def _set_held(client: CommandClient, job_ids: Sequence[str], *, held: bool) -> int:
    for each in job_ids:
        if not is_job(each):
            raise CommandFailure(
                f"{each} is not a job's id, and only jobs are held and released",
                remedy="Hold a container back with 'longshore priority ID 0'",
                exit_code=USAGE,
            )

    def set_one(job_id: str) -> str:
        client.send("PATCH", job_path(job_id), {"held": held})
        return f"{job_id} is {'held' if held else 'released'}"

    return _each(job_ids, set_one)


def _each(identifiers: Sequence[str], act: Callable[[str], str]) -> int:
    """Act on each once and write what was done; one that is refused does not keep the others."""
    status = 0
    for identifier in dict.fromkeys(identifiers):
        try:
            done = act(identifier)
        except CommandFailure as failure:
            if not 400 <= failure.status < 500 or failure.status in {401, 403}:
                raise
            # One that has ended already must not keep the others alive.
            click.echo("\n".join(failure.lines()), err=True)
            status = failure.exit_code
        else:
            click.echo(output.safe(done))
    return status
