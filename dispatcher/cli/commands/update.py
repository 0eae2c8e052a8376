"""`longshore update`: the next revision of a job that runs on each instance."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.file_lines import located
from longshore.dispatcher.cli.ids import job_path
from longshore.dispatcher.cli.job_files import expect_job_id, job_file_option, job_in
from longshore.dispatcher.cli.options import json_option, server_command


@click.command()
@click.argument("identifier", metavar="ID")
@job_file_option
@json_option
@server_command
def update(*, client: CommandClient, identifier: str, file: str, as_json: bool) -> None:
    """Make system or sysbatch job ID what a file says: its next revision.

    What runs is changed as it runs where it can be (labels, priority); else it is replaced, as many
    at a time as the job's 'update' says. What is the same already changes nothing; 'longshore plan
    --job ID' tells before what would be done.
    """
    expect_job_id(identifier, "updated")
    body, sources = job_in(file)
    before = read(client.get(job_path(identifier)), JobAnswer)
    try:
        answer = client.send("PUT", job_path(identifier), body)
    except CommandFailure as failure:
        raise located(failure, sources) from failure
    after = read(answer, JobAnswer)
    if as_json:
        output.print_json(answer)
    elif after.revision == before.revision:
        click.echo(output.safe(f"nothing changed: {after.id} is at revision {after.revision}"))
    else:
        click.echo(output.safe(f"{after.id} is at revision {after.revision}"))
