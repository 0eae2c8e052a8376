"""`longshore cost`: what was spent, by whom, for what and when; and the ledger as files.

By itself it is the report; `export` and `reconcile` are commands of it.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from longshore.dispatcher.api.schemas.cost import CostAmounts, CostAnswer, CostRowAnswer
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import LIMIT_MAX, CommandClient
from longshore.dispatcher.cli.commands.cost_files import export, reconcile_bill
from longshore.dispatcher.cli.options import WholeNumber, json_option, server_command

_CENT = Decimal("0.01")
_SMALL = Decimal("0.000001")
_AMOUNTS = ("DIRECT", "CAUSED", "SHARED", "TOTAL", "LOST WORK", "UNCERTAIN", "HOURS")
_SUCCESSES = ("SUCCEEDED", "EACH")


@click.command("cost")
@click.option("--from", "since", metavar="WHEN", default="", help="From a day, month or time on.")
@click.option("--to", "until", metavar="WHEN", default="", help="Before a day, month or time.")
@click.option("--tz", metavar="ZONE", default="", help="The zone of days and months; default: UTC.")
@click.option(
    "--by",
    metavar="DIMENSION,...",
    default="project",
    show_default=True,
    help="Rows by project, user, job, type, market, zone, state, cause, outcome, price_source or"
    " label:KEY.",
)
@click.option(
    "--step", type=click.Choice(["whole", "hour", "day", "month"]), default="whole", help="Rows by."
)
@click.option(
    "--idle",
    type=click.Choice(["separate", "share"]),
    default="separate",
    help="Whether idle time has rows of its own, or is shared by those who had work there.",
)
@click.option("--user", default="", help="Only this user's.")
@click.option("--project", default="", help="Only this project's.")
@click.option("--job", default="", help="Only of jobs of this name.")
@click.option(
    "--limit", type=WholeNumber(1, LIMIT_MAX), help="How many rows the table shows; default: all."
)
@json_option
@server_command
def report(
    *,
    client: CommandClient,
    since: str,
    until: str,
    tz: str,
    by: str,
    step: str,
    idle: str,
    user: str,
    project: str,
    job: str,
    limit: int | None,
    as_json: bool,
) -> None:
    """Tell what was spent; from the beginning of this month until now, if nothing else is said."""
    query = [
        ("from", since),
        ("to", until),
        ("tz", tz),
        ("by", by),
        ("step", step),
        ("idle", idle),
        ("user", user),
        ("project", project),
        ("job", job),
    ]
    document = client.whole("/v1/cost", [each for each in query if each[1]], LIMIT_MAX)
    if as_json:
        output.print_json(document)
        return
    answer = read(document, CostAnswer)
    more = 0 if limit is None else max(0, len(answer.items) - limit)
    _print(answer, by=tuple(by.split(",")), stepped=step != "whole", more=more)


def _print(answer: CostAnswer, *, by: tuple[str, ...], stepped: bool, more: int = 0) -> None:
    """Print a report without its `more` last rows; the total is that of all."""
    names = [name.strip().upper() for name in by if name.strip()]
    counted = any(item.succeeded is not msgspec.UNSET for item in answer.items)
    rows = [
        (
            *((times.moment_in(item.since, answer.time_zone),) if stepped else ()),
            *item.by.values(),
            *_amounts(item.amounts),
            *(_successes(item) if counted else ()),
        )
        for item in answer.items[: len(answer.items) - more]
    ]
    lead = [*(("FROM",) if stepped else ()), *names]
    beside = _SUCCESSES if counted else ()
    first = ("total" if not n else "" for n in range(len(lead)))
    rows.append((*first, *_amounts(answer.total), *("" for _ in beside)))
    output.print_table((*lead, *_AMOUNTS, *beside), rows)
    if more:
        output.say(f"rows that are not shown: {more} (--limit); the total is that of all")
    booked = answer.booked_until
    told = f"booked up to {times.moment(booked)}" if booked else "no hour of it is booked yet"
    click.echo(f"{answer.currency}, up to {times.moment(answer.as_of)}; {told}")
    if answer.unpriced_instance_hours:
        click.echo(
            f"{answer.unpriced_instance_hours:f} instance hours have no price: an admin sets"
            " price_per_hour of their types"
        )
    click.echo(f"not included: {', '.join(answer.not_included)}")


def _amounts(amounts: CostAmounts) -> tuple[str, ...]:
    parts = (amounts.direct, amounts.caused, amounts.shared, amounts.total)
    return (
        *(_money(part) for part in parts),
        _money(amounts.lost_work),
        _money(amounts.uncertain),
        f"{amounts.instance_hours.quantize(_CENT)}",
    )


def _successes(item: CostRowAnswer) -> tuple[str, str]:
    """Return how many containers of a row succeeded, and what each of these cost."""
    each = item.usd_per_success
    number = "" if isinstance(item.succeeded, msgspec.UnsetType) else str(item.succeeded)
    return (number, _money(each) if isinstance(each, Decimal) else "")


def _money(amount: Decimal) -> str:
    """Return an amount in cents, or as exactly as a small one needs."""
    place = _CENT if not amount or abs(amount) >= _CENT else _SMALL
    return f"{amount.quantize(place)}"


# ---- with the other commands ---------------------------------------------------------------------


@click.pass_context
def _report_unless_another(ctx: click.Context, /, **asked: Any) -> object:
    """Tell the report where no other command is named."""
    if ctx.invoked_subcommand is None:
        return ctx.invoke(report, **asked)
    given = [
        each.opts[0]
        for each in report.params
        if ctx.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
    ]
    if given:
        raise click.UsageError(
            f"{', '.join(given)} before '{ctx.invoked_subcommand}' would be of the report; give"
            f" options of '{ctx.invoked_subcommand}' after it."
        )
    return None


cost = click.Group(
    "cost",
    params=report.params,
    help=report.help,
    callback=_report_unless_another,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND]",
)
cost.add_command(export)
cost.add_command(reconcile_bill)
