"""The runs of a periodic or parameterised job, which are jobs of their own."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.render.job_render import JOB_COLUMNS, job_row

RUNS_SHOWN = 10


def print_runs(client: CommandClient, job_id: str) -> None:
    """Write the newest runs of a job."""
    runs = list(client.pages("/v1/jobs", [("parent", job_id)], RUNS_SHOWN + 1))
    if not runs:
        click.echo("\nIt has not run yet.")
        return
    click.echo("\nits runs, newest first")
    rows = [job_row(read(run, JobAnswer)) for run in runs[:RUNS_SHOWN]]
    output.print_table(JOB_COLUMNS, rows, wrap=("NOTE",))
    if len(runs) > RUNS_SHOWN:
        click.echo(f"and more: 'longshore jobs --parent {output.safe(job_id)}'")
