"""`longshore efficiency`: what work asks for against what it really takes."""

from __future__ import annotations

import click

from longshore.dispatcher.api.schemas.efficiency import EfficiencyAnswer, EfficiencyItem
from longshore.dispatcher.cli import output
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.durations import MomentParam
from longshore.dispatcher.cli.options import json_option, server_command
from longshore.dispatcher.cli.usage_words import amount


@click.command()
@click.option("--user", default="", metavar="USER", help="Only this user's.")
@click.option("--project", default="", metavar="PROJECT", help="Only this project's.")
@click.option("--name", default="", metavar="NAME", help="Only jobs and containers of this name.")
@click.option(
    "--since",
    metavar="WHEN",
    type=MomentParam(),
    help="Only what ended from then on, as 2026-01-31T12:00:00Z.",
)
@json_option
@server_command
def efficiency(
    *,
    client: CommandClient,
    user: str,
    project: str,
    name: str,
    since: str | None,
    as_json: bool,
) -> None:
    """Compare what work asks for with what it really takes, and say what to ask for instead.

    Runs that ask for the same under one name are counted together, those that succeeded. Money is
    told only where asking for less would let them go to a cheaper type that can be bought now.
    """
    query = [("user", user), ("project", project), ("name", name), ("since", since or "")]
    document = client.get("/v1/efficiency", [each for each in query if each[1]])
    if as_json:
        output.print_json(document)
        return
    answer = read(document, EfficiencyAnswer)
    if not answer.items:
        click.echo("nothing that was measured has succeeded")
    else:
        output.print_table(
            ("NAME", "USER", "PROJECT", "RUNS", "MEMORY", "P95", "CPUS", "P95", "ADVICE"),
            [_row(each) for each in answer.items],
            wrap=("ADVICE",),
        )
    if not answer.complete:
        click.echo("not everything was looked at: narrow it down with --user or --project")


def _row(seen: EfficiencyItem) -> tuple[str, ...]:
    return (
        "/".join(part for part in (seen.name, seen.task) if part),
        seen.user,
        seen.project,
        str(seen.runs),
        output.size(seen.asked.memory),
        amount(seen.peak_memory_p95_bytes),
        f"{seen.asked.cpus:g}",
        "" if seen.cpus_p95 is None else f"{seen.cpus_p95:.2f}",
        advice(seen),
    )


def advice(seen: EfficiencyItem) -> str:
    """Return what to do about one kind of work, "" for nothing."""
    if seen.runs_missing:
        return f"{seen.runs_missing} more {'run' if seen.runs_missing == 1 else 'runs'} needed"
    if seen.suggested is None:
        return ""
    cpus, memory = seen.suggested.cpus, seen.suggested.memory
    options = [
        *([] if cpus is None else [f"--cpus {cpus:g}"]),
        *([] if memory is None else [f"--memory {memory // 2**20}MiB"]),
    ]
    told = f"ask for {' '.join(options)}"
    if seen.saving is None:
        return told
    less = output.money(seen.saving.usd)
    return f"{told}: {seen.saving.instead} would have cost {less} less than {seen.saving.now}"
