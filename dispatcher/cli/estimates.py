"""What submissions may come to, asked of the server before anything is submitted.

The server estimates jobs. A container alone is asked for as the only task of a job of its name:
whoever ran it before, the history of both is the same.

Stands alone: `plan` and `submit` tell it alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from longshore.dispatcher.api.schemas.jobs import CostEstimateAnswer, PlanAnswer
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.file_lines import Source, located
from longshore.dispatcher.cli.submission import is_job_body

OLDER_SERVER = "the server does not estimate costs: it is of an older version"
_OF_WHOLE = ("name", "priority", "project")
_TASK = re.compile(r"^tasks(\[0\])?\.?")


def cost_told(cost: CostEstimateAnswer) -> str:
    """Return what a job may come to, and what that rests on, in a line."""
    basis = output.safe(cost.basis)
    if cost.p50_usd is not None and cost.p90_usd is not None:
        p50, p90 = output.money(cost.p50_usd), output.money(cost.p90_usd)
        return f"{p50} (p50) to {p90} (p90), {basis}"
    if cost.at_most_usd is not None:
        return f"at most {output.money(cost.at_most_usd)}, {basis}"
    return f"unknown: {basis}"


def print_estimates(
    client: CommandClient, body: object, sources: Sequence[Source], *, as_json: bool
) -> None:
    """Write what a job, a container or each of several may come to; nothing is submitted.

    Raises `CommandFailure` for what the server would refuse, with the line of the file.
    """
    listed = isinstance(body, list)
    try:
        if isinstance(body, list):
            found = [_estimate(client, each, f"[{n}].") for n, each in enumerate(body)]
        else:
            found = [_estimate(client, body, "")]
    except CommandFailure as failure:
        raise located(failure, sources) from failure
    if as_json:
        raw = [answer.get("cost") for _, answer in found]
        output.print_json({"items": raw} if listed else raw[0])
        return
    for name, answer in found:
        cost = read(answer, PlanAnswer).cost
        if cost is None:
            raise CommandFailure(OLDER_SERVER)
        click.echo(
            f"{output.safe(name)}: {cost_told(cost)}" if listed and name else cost_told(cost)
        )
    output.say("nothing was submitted")


def _estimate(client: CommandClient, body: object, where: str) -> tuple[str, dict[str, Any]]:
    """Return the name of what is asked for, and the plan of it; `where` is its path."""
    name = str(body.get("name") or "") if isinstance(body, dict) else ""
    if is_job_body(body) or not isinstance(body, dict):
        return name, client.send("POST", "/v1/jobs/plan", body)
    task = {key: value for key, value in body.items() if key not in _OF_WHOLE}
    whole = {key: body[key] for key in _OF_WHOLE if key in body}
    try:
        return name, client.send("POST", "/v1/jobs/plan", {**whole, "tasks": [task]})
    except CommandFailure as failure:
        problems = [(where + _TASK.sub("", path), what) for path, what in failure.problems]
        raise CommandFailure(
            failure.sentence,
            remedy=failure.remedy,
            exit_code=failure.exit_code,
            problems=problems,
            status=failure.status,
        ) from failure
