"""`longshore budgets`: what may be spent, and how much of it is."""

from __future__ import annotations

from decimal import Decimal

import click

from longshore.dispatcher.api.schemas.budgets import BudgetAnswer, BudgetsAnswer
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.options import json_option, server_command

_CENT = Decimal("0.01")
_COLUMNS = (
    *("BUDGET", "OF", "PERIOD", "LIMIT", "SPENT", "COMMITTED", "LEFT", "STEPS", "EXPECTED"),
    "NEW WORK",
)


@click.command()
@json_option
@server_command
def budgets(*, client: CommandClient, as_json: bool) -> None:
    """Tell of each budget what is spent, what runs may add, and what the period will likely cost.

    EXPECTED is the middle of what is likely, and from where to where three of four periods end.
    """
    document = client.get("/v1/budgets", [])
    if as_json:
        output.print_json(document)
        return
    answer = read(document, BudgetsAnswer)
    if not answer.items:
        click.echo("no budget concerns you: an admin writes them into the configuration (budgets)")
        return
    output.print_table(_COLUMNS, [_row(each) for each in answer.items])
    click.echo(f"{answer.currency}, up to {times.moment(answer.items[0].as_of)}")
    for each in answer.items:
        if each.message:
            click.echo(each.message)


def _row(budget: BudgetAnswer) -> tuple[str, ...]:
    expected, until = budget.forecast, budget.stopped_until
    likely = "-"
    if expected is not None:
        likely = f"{_money(expected.p50)} ({_money(expected.p10)} to {_money(expected.p90)})"
    return (
        budget.name,
        f"{budget.scope} {budget.whose}",
        budget.period,
        *(_money(each) for each in (budget.limit, budget.spent, budget.committed, budget.left)),
        " ".join(f"{each}%" for each in budget.steps_reached) or "-",
        likely,
        "starts" if until is None else f"stopped until {times.moment(until)}",
    )


def _money(amount: Decimal) -> str:
    return f"{amount.quantize(_CENT):,}"
