"""`longshore plan`: what a job would come to, before it is submitted."""

from __future__ import annotations

from decimal import Decimal
from urllib.parse import urlencode

import click
import msgspec

from longshore.dispatcher.api.schemas.jobs import (
    PlanAnswer,
    PlannedChanges,
)
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.estimates import cost_told
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.file_lines import located
from longshore.dispatcher.cli.job_files import expect_job_id, job_file_option, job_in
from longshore.dispatcher.cli.options import json_option, server_command

STEPS_SHOWN = 20


CHANGES = tuple(field.name for field in msgspec.structs.fields(PlannedChanges))


@click.command()
@job_file_option
@click.option("--job", "job_id", default="", metavar="ID", help="Plan it as an update of this job.")
@click.option(
    "--steps", "all_steps", is_flag=True, help=f"Show all steps, not only the first {STEPS_SHOWN}."
)
@json_option
@server_command
def plan(*, client: CommandClient, file: str, job_id: str, all_steps: bool, as_json: bool) -> None:
    """Tell what would be done if a job were submitted now, and change nothing.

    How many containers would be placed, replaced (update), changed as they run (in place), ended
    (stop; migrate: since their instance drains), left alone (ignore) or blocked (no room), and how
    many of others make way (preempt); LATER says how many have to wait, for their turn, for others
    or for a time. Then what would be created, and what that adds to the price of all instances; why
    the rest waits; and where each has its place. COST is what all of it may come to: from what such
    runs came to before, else from time limits.
    """
    if job_id:
        expect_job_id(job_id, "planned")
    body, sources = job_in(file)
    path = "/v1/jobs/plan" + (f"?{urlencode([('job', job_id)])}" if job_id else "")
    try:
        answer = client.send("POST", path, body)
    except CommandFailure as failure:
        raise located(failure, sources) from failure
    if as_json:
        output.print_json(answer)
        return
    print_plan(read(answer, PlanAnswer), all_steps=all_steps)


def print_plan(seen: PlanAnswer, *, all_steps: bool) -> None:
    """Write a plan: its counts, then what there is of instances, prices, waiting and steps."""
    if seen.of_run:
        when = "it is run on demand (longshore dispatch)"
        if seen.next_launch:
            when = f"its schedule launches it first at {times.moment(seen.next_launch)}"
        click.echo(f"Nothing starts when it is submitted: {when}.")
        click.echo("One run, launched now, would be:\n")
    output.print_table(
        [name.replace("_", " ").upper() for name in CHANGES],
        [[str(getattr(seen.changes, name)) for name in CHANGES]],
    )
    change = seen.price_change_per_hour
    click.echo(f"\nprice  {price_change(change.least, change.most)}")
    if seen.cost is not None:
        click.echo(f"cost   {cost_told(seen.cost)}")
    if seen.creates:
        click.echo("\ninstances more or less")
        output.print_table(
            ("TYPE", "NUMBER", "PRICE"),
            [
                (each.instance_type, f"{each.number:+d}", output.price(each.price_per_hour))
                for each in seen.creates
            ],
        )
    output.print_block(
        "what waits", [(each.code.replace("_", " "), each.message) for each in seen.waiting]
    )
    shown = seen.steps if all_steps else seen.steps[:STEPS_SHOWN]
    if shown:
        click.echo("\nsteps")
        output.print_table(
            ("INSTANCE", "ACTION", "DETAIL"),
            [(each.instance or "-", each.action, each.detail) for each in shown],
            wrap=("DETAIL",),
        )
    if more := len(seen.steps) - len(shown):
        click.echo(f"and {more} more (--steps)")
    elif seen.steps_left_out:
        click.echo(f"and {seen.steps_left_out} more that are not shown")
    click.echo("\nNothing was changed.")


def price_change(least: Decimal, most: Decimal) -> str:
    """Return between what the price of all instances changes: "+0.00 to +1.20 USD/h"."""
    if least == most:
        return f"{_signed(most)} USD/h"
    return f"{_signed(least)} to {_signed(most)} USD/h"


def _signed(usd: Decimal) -> str:
    whole_cents = usd.quantize(output.CENT)
    return f"{whole_cents if whole_cents == usd else usd.normalize():+f}"
