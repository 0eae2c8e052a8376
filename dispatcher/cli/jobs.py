"""`longshore jobs`: list jobs."""

from __future__ import annotations

import click

from dispatcher.cli import output
from dispatcher.cli.client import Client
from dispatcher.cli.job_lines import JOB_COLUMNS, job_row
from dispatcher.cli.job_views import JOB_STATES, JobView
from dispatcher.cli.options import WholeNumber, json_option, server_command
from dispatcher.cli.views import view

JOBS_LIMIT = 500
JOBS_LIMIT_MAX = 1_000_000


@click.command()
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(JOB_STATES),
    help="Only in this state, repeated for several.",
)
@click.option("--user", default="", metavar="USER", help="Only of this user.")
@click.option("--project", default="", metavar="PROJECT", help="Only of this project.")
@click.option("--name", default="", metavar="NAME", help="Only with this name.")
@click.option("--parent", default="", metavar="ID", help="Only the runs of this job.")
@click.option(
    "--limit",
    type=WholeNumber(1, JOBS_LIMIT_MAX),
    metavar="N",
    default=JOBS_LIMIT,
    show_default=True,
    help="At most so many, the newest first.",
)
@json_option
@server_command
def jobs(
    *,
    client: Client,
    states: tuple[str, ...],
    user: str,
    project: str,
    name: str,
    parent: str,
    limit: int,
    as_json: bool,
) -> None:
    """List jobs, newest first, also those that have ended."""
    filters = (("user", user), ("project", project), ("name", name), ("parent", parent))
    query = [("state", state) for state in states]
    query += [(key, value) for key, value in filters if value]
    items = list(client.pages("/v1/jobs", query, limit + 1))
    shown, more = items[:limit], len(items) > limit
    output.listing(
        as_json,
        shown,
        lambda: output.print_table(
            JOB_COLUMNS, [job_row(view(item, JobView)) for item in shown], wrap=("NOTE",)
        ),
    )
    if more:
        output.say(f"there are more; these are the newest {limit} (--limit)")
