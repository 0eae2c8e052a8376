"""`longshore dispatch`: run a parameterised job."""

from __future__ import annotations

from collections.abc import Sequence

import click

from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.commands.waiting import await_ended, status_of
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.ids import job_path
from longshore.dispatcher.cli.job_files import expect_job_id
from longshore.dispatcher.cli.job_terms import refuse_endless
from longshore.dispatcher.cli.options import idempotency_option, json_option, server_command
from longshore.dispatcher.cli.render.progress import outcomes
from longshore.dispatcher.cli.submission import pairs


@click.command()
@click.argument("identifier", metavar="ID")
@click.option(
    "--param",
    "-p",
    "parameters",
    multiple=True,
    metavar="NAME=VALUE",
    help="The value of a parameter; repeat for several.",
)
@click.option(
    "--wait", "-w", "wait", is_flag=True, help="Wait for the run, and exit with its exit code."
)
@idempotency_option
@json_option
@server_command
def dispatch(
    *,
    client: CommandClient,
    identifier: str,
    parameters: tuple[str, ...],
    wait: bool,
    idempotency_key: str,
    as_json: bool,
) -> int:
    """Run parameterized job ID once more, and print the id of the run, a job of its own.

    Its containers find the value of NAME in LONGSHORE_PARAMETER_NAME.
    """
    expect_job_id(identifier, "dispatched")
    values = values_of(parameters)
    if wait:
        template = read(client.get(job_path(identifier)), JobAnswer)
        refuse_endless(
            {"type": template.type, "late_joiners": template.late_joiners is not False}, "--wait"
        )
    made = client.send(
        "POST",
        job_path(identifier, "/dispatch"),
        {"parameters": values},
        idempotency_key=idempotency_key,
    )
    run = read(made, JobAnswer)
    if not as_json:
        click.echo(output.safe(run.id))
    if not wait:
        if as_json:
            output.print_json(made)
        return 0
    ended, raw = await_ended(client, [run.id], None)
    if as_json:
        output.print_json(raw[0])
    else:
        for line in outcomes(ended):
            click.echo(line, err=True)
    return status_of(ended)


def values_of(parameters: Sequence[str]) -> dict[str, str]:
    """Return NAME=VALUE arguments as a mapping; raises `CommandFailure` for anything else."""
    values = pairs("--param", parameters)
    if len(values) < len(parameters):
        raise CommandFailure(
            "--param names a parameter twice",
            remedy="Give each one value",
            exit_code=USAGE,
        )
    return values
