"""`longshore leaks`: what is billed and not wanted, for people and for cron."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import click

from longshore.dispatcher.api.schemas.instances import LeakAnswer, LeakList
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import LIMIT_MAX, CommandClient
from longshore.dispatcher.cli.failure import FAILED
from longshore.dispatcher.cli.options import json_option, server_command

_COLUMNS = ("INSTANCE", "TYPE", "FOR", "PRICE", "COST", "WHY", "REMEDY")
_LOOK = ". See its log for 'a driver call failed' of ListInstances"


@click.command()
@json_option
@server_command
def leaks(*, client: CommandClient, as_json: bool) -> int:
    """List what is billed and not wanted.

    Exits with 0 when there is none, and with 1 when there is, or when nobody can tell.
    """
    document = client.whole("/v1/leaks", (), LIMIT_MAX)
    seen = read(document, LeakList)
    if seen.store_problem:
        output.say(
            f"repair this first: {seen.store_problem}; until then instances may be neither listed "
            "nor ended"
        )
    if as_json:
        output.print_json(document)
    elif seen.items:
        output.print_table(_COLUMNS, [_row(each) for each in seen.items], wrap=("WHY", "REMEDY"))
        click.echo(f"\n{_total(seen.items)}")
    elif seen.complete:
        click.echo("nothing is billed that is not wanted")
    if seen.leftovers_problem:
        output.say(f"what stays of instances that are gone is not seen: {seen.leftovers_problem}")
    if not seen.complete:
        output.say(_doubt(seen))
    return FAILED if seen.items or not seen.complete else 0


def _row(leak: LeakAnswer) -> tuple[str, ...]:
    return (
        leak.instance or leak.resource or "",
        leak.instance_type,
        times.age(leak.since),
        output.price(leak.price_usd_per_hour or Decimal(0)),
        _cost(leak) if leak.price_usd_per_hour else "",
        leak.why,
        leak.remedy,
    )


def _cost(leak: LeakAnswer) -> str:
    """Return what a leak has cost; of one that likely is not there, what it may have at most."""
    if leak.uncertain_usd and not leak.cost_usd:
        return f"up to {output.money(leak.uncertain_usd)}"
    return output.money(leak.cost_usd)


def _total(items: Sequence[LeakAnswer]) -> str:
    """Return the sum in one sentence; what has no known price is told apart."""
    price = sum((each.price_usd_per_hour or Decimal(0) for each in items), Decimal(0))
    cost = sum((each.cost_usd for each in items), Decimal(0))
    uncertain = sum((each.uncertain_usd for each in items), Decimal(0))
    unpriced = sum(1 for each in items if not each.price_usd_per_hour)
    parts = [f"{len(items)} in all"]
    if price:
        parts += [output.price(price), f"{output.money(cost)} so far"]
    if uncertain:
        parts.append(f"{output.money(uncertain)} uncertain")
    if unpriced:
        parts.append(f"{unpriced} of unknown price")
    return ", ".join(parts)


def _doubt(seen: LeakList) -> str:
    more = "more" if seen.items else "something"
    # What waits for the store has not failed: the log would have nothing of it.
    look = "" if seen.store_problem else _LOOK
    why = times.no_current_listing(seen.listed_at)
    return f"{more} may be billed and not wanted: {why}{look}"
