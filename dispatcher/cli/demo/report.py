"""What the demo shows: a live picture or a line a happening, and the tables at the end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from typing import TYPE_CHECKING

import click

from longshore.dispatcher.cli import container_words, output
from longshore.dispatcher.cli.demo.scenario import PROMISES
from longshore.dispatcher.cli.demo.story import InstanceStory, Story

if TYPE_CHECKING:
    from rich.console import RenderableType

LINES_KEPT = 6
CONTAINER_COLUMNS = ("CONTAINER", "PRIO", "CPUS", "STATE", "RAN", "WHERE OR WHY")
INSTANCE_COLUMNS = ("INSTANCE", "TYPE", "PRICE", "STATE")


class LineScreen:
    """For pipes and files: a line when something happens."""

    def tell(self, elapsed_s: float, sentence: str) -> None:
        """Write the line."""
        click.echo(f"{elapsed_s:6.1f}s  {output.safe(sentence)}")

    def shown(self, story: Callable[[], Story]) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        del story
        return nullcontext()


class LiveScreen:
    """For people: tables that change in place, with the last happenings below them."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def tell(self, elapsed_s: float, sentence: str) -> None:
        """Remember the line for the next drawing, which another thread makes."""
        self._lines = [*self._lines[1 - LINES_KEPT :], f"{elapsed_s:6.1f}s  {sentence}"]

    def shown(self, story: Callable[[], Story]) -> AbstractContextManager[object]:
        """Return rich's live display of the story."""
        from rich.console import Console  # noqa: PLC0415 - slow to import, only terminals need it
        from rich.live import Live  # noqa: PLC0415 - slow to import, only terminals need it

        return Live(
            get_renderable=lambda: self._drawing(story()),
            console=Console(highlight=False),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _drawing(self, story: Story) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415 - slow to import, only terminals need it
        from rich.text import Text  # noqa: PLC0415 - slow to import, only terminals need it

        containers = [
            (
                each.name,
                str(each.priority),
                f"{each.cpus:g}",
                each.state,
                output.duration(container_words.ran_for_s(each)),
                container_words.note(each),
            )
            for each in list(story.containers.values())
        ]
        instances = [
            (each.id, each.type_name, output.price(each.price_usd_per_hour), each.state)
            for each in list(story.instances.values())
        ]
        return Group(
            output.rich_table(CONTAINER_COLUMNS, containers, wrap=("WHERE OR WHY",), one_line=True),
            Text(),
            output.rich_table(INSTANCE_COLUMNS, instances),
            Text(),
            Text("\n".join(output.safe(line) for line in self._lines), style="dim"),
        )


def print_tables(story: Story) -> None:
    """Write what ran where, and the life of every instance."""
    click.echo("\nWhat ran where, for how long, at what price:\n")
    by_name = {each.name: each for each in story.containers.values()}
    rows = []
    for name in PROMISES:
        each = by_name.get(name)
        if each is None:
            continue
        rows.append(
            (
                each.name,
                f"{each.cpus:g}",
                str(each.priority),
                each.instance or (each.attempts[-1].instance if each.attempts else "") or "",
                each.instance_type or "",
                f"{container_words.ran_for_s(each) or 0:.1f}s",
                output.money(story.costs_usd.get(name, Decimal(0))),
                "" if each.exit_code is None else str(each.exit_code),
                each.state,
            )
        )
    output.print_table(
        ("CONTAINER", "CPUS", "PRIO", "INSTANCE", "TYPE", "RAN", "COST", "EXIT", "OUTCOME"), rows
    )
    work = sum((story.costs_usd.get(name, Decimal(0)) for name in PROMISES), Decimal(0))
    click.echo(
        f"\n{len(rows)} containers, {output.money(work)} in all;"
        f" with boots and idle time their instances cost {output.money(story.total_usd)}."
    )
    click.echo("\nThe instances (seconds since the demo began):\n")
    output.print_table(
        (
            "INSTANCE",
            "TYPE",
            "PRICE",
            "CREATED",
            "FIRST IDLE",
            "SHUT DOWN",
            "GONE",
            "CONTAINERS RUN",
        ),
        [instance_row(story, each) for each in story.instances.values()],
        wrap=("CONTAINERS RUN",),
    )


def instance_row(story: Story, each: InstanceStory) -> tuple[str, ...]:
    """Return an instance's cells in the table at the end."""
    ran = story.runs_on(each.id)
    return (
        each.id,
        each.type_name,
        output.price(each.price_usd_per_hour),
        *(
            "" if moment is None else f"{moment:.1f}"
            for moment in (each.created_s, each.first_idle_s, each.shut_down_s, each.gone_s)
        ),
        f"{len(ran)}: {', '.join(ran)}" if ran else "0",
    )
