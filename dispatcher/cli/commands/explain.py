"""`longshore explain`: why a container waits, or what became of it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from longshore.dispatcher.api.schemas.explain import (
    EstimateAnswer,
    ExplanationAnswer,
    HoldAnswer,
    LimitAnswer,
    TallyAnswer,
    TypeAnswer,
    WaitingAnswer,
)
from longshore.dispatcher.cli import output, times
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.ids import container_path, is_job
from longshore.dispatcher.cli.options import json_option, server_command
from longshore.dispatcher.cli.render.explain_job import explain_job


@click.command()
@click.argument("identifier", metavar="ID")
@json_option
@server_command
def explain(*, client: CommandClient, identifier: str, as_json: bool) -> None:
    """Explain why container ID waits, or what became of it.

    Of a job, what those of its containers wait for that are queued, by reason.
    """
    if is_job(identifier):
        explain_job(client, identifier, as_json=as_json)
        return
    document = client.get(container_path(identifier, "/explain"))
    if as_json:
        output.print_json(document)
        return
    seen = read(document, ExplanationAnswer)
    output.print_wrapped(seen.sentence)
    if seen.waiting is not None:
        _print_waiting(seen.waiting)
    output.print_block(
        "what happened", [(times.moment(each.at), each.message) for each in seen.history]
    )


def _print_waiting(waiting: WaitingAnswer) -> None:
    click.echo()
    output.print_pairs(summary(waiting))
    output.print_block("instance types, cheapest first", _types(waiting.types))
    instances = waiting.instances
    output.print_block(f"instances ({instances.total})", _instances(instances))
    output.print_block("creates that wait", [(_scope(hold), _hold(hold)) for hold in waiting.holds])


def _types(types: Sequence[TypeAnswer]) -> list[tuple[str, str]]:
    """Return types with their prices, both in columns, and whether each would do."""
    prices = [_price(each) for each in types]
    width = max((len(each.name) for each in types), default=0)
    priced = max(map(len, prices), default=0)
    return [
        (f"{each.name.ljust(width)}  {price.ljust(priced)}", _verdict(each))
        for each, price in zip(types, prices, strict=True)
    ]


def _price(seen: TypeAnswer) -> str:
    """Return what a type costs, and what is put on that for what is lost of its use."""
    told = output.price(seen.price_usd_per_hour)
    return f"{told} +{seen.surcharge:.0%} (taken back)" if seen.surcharge else told


def summary(waiting: WaitingAnswer) -> list[tuple[str, str]]:
    """Return the few facts that come first, as names and values."""
    place = ""
    if waiting.position is not None:
        place = f"{waiting.position} of {waiting.queue_length}, {waiting.alike} of them just alike"
        if waiting.ahead_stuck:
            place += f"; {waiting.ahead_stuck} of those before it can never start as things are"
    claim = waiting.claim
    has_place = ""
    if claim is not None:
        what = claim.instance or f"a new {claim.instance_type} that is being created"
        has_place = f"on {what}, {times.age(claim.since)} so far"
        has_place += f"; last error there: {claim.last_error}" if claim.last_error else ""
    reached = [_limit(limit) for limit in waiting.limits if limit.blocking or limit.reached]
    return [
        ("starts", start(waiting.estimate)),
        ("position", place),
        ("has a place", has_place),
        ("limits reached", "; ".join(reached)),
    ]


def _limit(limit: LimitAnswer) -> str:
    whose = f" of {limit.whose}" if limit.whose else ""
    used = f"{limit.limit:g}" if limit.used is None else f"{limit.used:g} of {limit.limit:g} used"
    adds = f", it would add {limit.adds:g}" if limit.adds else ""
    blocks = " (keeps it waiting)" if limit.blocking else ""
    return f"{limit.name}{whose}: {used}{adds}{blocks}"


def start(estimate: EstimateAnswer) -> str:
    """Return when it starts, and how that is known."""
    earliest, latest = estimate.earliest_s, estimate.latest_s
    if latest is not None:
        when = f"in {output.duration(earliest or 0.0)} to {output.duration(latest)}"
    elif earliest:
        when = f"in {output.duration(earliest)} or later, nobody knows how much"
    else:
        when = "not known when"
    return f"{when}: {estimate.basis}"


def _verdict(type_: TypeAnswer) -> str:
    if type_.rejections:
        return "no: " + ", ".join(type_.rejections)
    return f"yes, but {type_.blocked_by}" if type_.blocked_by else "yes"


def _instances(instances: TallyAnswer) -> list[tuple[str, str]]:
    rows = []
    for fate in instances.by_cause:
        more = ", ..." if fate.count > len(fate.ids) else ""
        what = fate.what or fate.cause
        if fate.cause == "exhausted":
            short = (f"{number} in {name}" for name, number in sorted(instances.exhausted.items()))
            what += f" (too little room: {', '.join(short)})"
        rows.append((str(fate.count), f"{what}: {', '.join(fate.ids)}{more}"))
    return rows


def _scope(hold: HoldAnswer) -> str:
    if hold.instance_type is not None:
        return hold.instance_type
    if hold.quota_group is None:
        return "all"
    market = {None: "", True: ", preemptible", False: ", not preemptible"}[hold.preemptible]
    return f"quota group {hold.quota_group or 'default'}{market}"


def _hold(hold: HoldAnswer) -> str:
    return f"until {times.moment(hold.until)} ({hold.cause}): {hold.message}"
