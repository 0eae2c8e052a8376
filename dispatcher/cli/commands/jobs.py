"""`longshore jobs`: list jobs."""

from __future__ import annotations

from itertools import chain

import click

from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import JOB_STATES, UNFINISHED_JOB_STATES, read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.ids import job_path
from longshore.dispatcher.cli.options import WholeNumber, json_option, server_command
from longshore.dispatcher.cli.render.job_render import JOB_COLUMNS, job_row

JOBS_LIMIT = 500
JOBS_LIMIT_MAX = 1_000_000
COLUMNS = output.Columns(
    names=JOB_COLUMNS, row=lambda item: job_row(read(item, JobAnswer)), wrap=("NOTE",)
)


@click.command()
@click.option("-a", "--all", "everything", is_flag=True, help="Include those that have ended.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(JOB_STATES),
    help="Only those in this state; repeat for several.",
)
@click.option("--user", default="", metavar="USER", help="Only this user's.")
@click.option("--project", default="", metavar="PROJECT", help="Only this project's.")
@click.option("--name", default="", metavar="NAME", help="Only with this name.")
@click.option("--parent", default="", metavar="ID", help="Only the runs of this job.")
@click.option(
    "--limit",
    type=WholeNumber(1, JOBS_LIMIT_MAX),
    metavar="N",
    default=JOBS_LIMIT,
    show_default=True,
    help="Show at most this many, newest first.",
)
@json_option
@server_command
def jobs(
    *,
    client: CommandClient,
    everything: bool,
    states: tuple[str, ...],
    user: str,
    project: str,
    name: str,
    parent: str,
    limit: int,
    as_json: bool,
) -> None:
    """List jobs that have not ended yet, newest first, those that are runs of another last.

    With --parent all runs of that job, also those that have ended.
    """
    if parent:
        # Whoever mistypes the id is told, instead of that there are no runs.
        client.get(job_path(parent))
    filters = (("user", user), ("project", project), ("name", name), ("parent", parent))
    wanted = states or (() if everything or parent else UNFINISHED_JOB_STATES)
    query = [("state", state) for state in wanted]
    query += [(key, value) for key, value in filters if value]
    items = client.pages("/v1/jobs", query, limit + 1)
    if not everything and not parent:
        # A template has more runs than anybody reads: what lives on comes before them.
        own = client.pages("/v1/jobs", [*query, ("own", "true")], limit + 1)
        items = chain(own, (each for each in items if each.get("parent")))
    if output.print_items(items, COLUMNS, most=limit, as_json=as_json):
        output.say(f"there are more; these are the newest {limit} (--limit)")
