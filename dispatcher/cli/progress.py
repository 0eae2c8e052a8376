"""What a person sees while containers are waited for: a live table, or a line a change."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

import click

from dispatcher.cli import output
from dispatcher.cli.views import CONTAINER_STATES, ContainerView

if TYPE_CHECKING:
    from rich.console import RenderableType

ROWS_KEPT_FREE = 5
ROWS_WITHOUT_TERMINAL_SIZE = 20
LINES_AT_MOST = 20
COUNTS_INTERVAL_S = 1.0


class Progress(Protocol):
    """Shows what changes; everything goes to stderr, so that stdout stays the command's answer."""

    def changed(self, seen: ContainerView) -> None:
        """Show that a container changed."""
        ...

    def say(self, sentence: str) -> None:
        """Show a sentence about the connection."""
        ...

    def shown(self) -> AbstractContextManager[object]:
        """Return a context in which it is on the screen."""
        ...


def progress_for(container_ids: Sequence[str]) -> Progress:
    """Return the live table when a person looks at stdout and stderr, else plain lines.

    For many containers these tell how many are in each state.
    """
    if output.on_terminal() and sys.stderr.isatty():
        return LiveProgress(container_ids)
    return CountProgress(container_ids) if many(container_ids) else LineProgress()


def many(things: Sequence[object]) -> bool:
    """Return whether these are more containers than a line each can be read of."""
    return len(things) > LINES_AT_MOST


class LineProgress:
    """One line a change of state."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[str, str | None]] = {}

    def changed(self, seen: ContainerView) -> None:
        """Write a line when state or instance changed; the reason alone is no news."""
        # Places are given and taken back while the cloud is at its quota: that is no news.
        state = ("waiting", None) if seen.waits else (seen.state, seen.instance)
        if self._states.get(seen.id) == state or seen.final:
            return
        self._states[seen.id] = state
        note = seen.note()
        click.echo(output.safe(f"{seen.id} {seen.state}{f': {note}' if note else ''}"), err=True)

    def say(self, sentence: str) -> None:
        """Write the sentence."""
        output.say(sentence)

    def shown(self) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        return nullcontext()


class CountProgress:
    """How many are in each state: a line when that changed, at most one a second."""

    def __init__(self, container_ids: Sequence[str]) -> None:
        self._awaited = len(set(container_ids))
        self._views: dict[str, ContainerView] = {}
        self._written = ""
        self._stopped = threading.Event()

    def changed(self, seen: ContainerView) -> None:
        """Remember it for the next line, which another thread writes."""
        self._views[seen.id] = seen

    def say(self, sentence: str) -> None:
        """Write the sentence."""
        output.say(sentence)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Write lines while the context lasts."""
        thread = threading.Thread(target=self._write_all, name="counts", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join()

    def _write_all(self) -> None:
        self._write()
        while not self._stopped.wait(COUNTS_INTERVAL_S):
            self._write()

    def _write(self) -> None:
        seen = list(self._views.values())
        line = summary(seen)
        # Counts that grow while each is looked at for the first time are no news.
        if len(seen) == self._awaited and line != self._written:
            self._written = line
            click.echo(line, err=True)


class LiveProgress:
    """One table for all containers, drawn several times a second, gone at the end."""

    def __init__(self, container_ids: Sequence[str]) -> None:
        self._views: dict[str, ContainerView | None] = dict.fromkeys(container_ids)
        self._sentence = ""

    def changed(self, seen: ContainerView) -> None:
        """Remember it for the next drawing, which another thread makes."""
        self._views[seen.id] = seen
        self._sentence = ""

    def say(self, sentence: str) -> None:
        """Show the sentence below the table, until something changes."""
        self._sentence = sentence

    def shown(self) -> AbstractContextManager[object]:
        """Return rich's live display."""
        from rich.console import Console  # noqa: PLC0415 - slow to import, only terminals need it
        from rich.live import Live  # noqa: PLC0415 - slow to import, only terminals need it

        console = Console(stderr=True, highlight=False)
        room = (console.height or ROWS_WITHOUT_TERMINAL_SIZE) - ROWS_KEPT_FREE
        return Live(
            get_renderable=lambda: self._drawing(max(1, room)),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def _drawing(self, room: int) -> RenderableType:
        from rich.console import Group  # noqa: PLC0415 - slow to import, only terminals need it
        from rich.text import Text  # noqa: PLC0415 - slow to import, only terminals need it

        seen = [each for each in list(self._views.values()) if each is not None]
        table = output.rich_table(
            ("CONTAINER", "NAME", "STATE", "FOR", "WHERE OR WHY"),
            [row(each) for each in most_telling(seen, room)],
            wrap=("WHERE OR WHY",),
            one_line=True,
        )
        hidden = len(seen) - room
        below = summary(seen) + (f" ({hidden} not shown)" if hidden > 0 else "")
        parts: list[RenderableType] = [table, Text(below, style="dim")]
        if self._sentence:
            parts.append(Text(output.safe(self._sentence), style="yellow"))
        return Group(*parts)


def row(seen: ContainerView) -> tuple[str, ...]:
    """Return a container's cells in the live table."""
    lasting = seen.ran_for_s()
    spent = output.age(seen.created_at) if lasting is None else output.duration(lasting)
    return (seen.id, seen.name, seen.state, spent, seen.note())


def most_telling(seen: Sequence[ContainerView], room: int) -> list[ContainerView]:
    """Return at most `room` containers: what runs before what waits before what has ended."""
    if len(seen) <= room:
        return list(seen)
    rank = {"running": 0, "locked": 1, "queued": 2}
    return sorted(seen, key=lambda each: rank.get(each.state, 3))[:room]


def summary(seen: Sequence[ContainerView]) -> str:
    """Return how many are in each state, as a phrase."""
    count = Counter(each.state for each in seen)
    return ", ".join(f"{count[state]} {state}" for state in CONTAINER_STATES if count[state])


def outcomes(ended: Sequence[ContainerView]) -> list[str]:
    """Return how containers ended, a line each; of many those that did not succeed, and counts."""
    if not many(ended):
        return [outcome_line(each) for each in ended]
    told = [outcome_line(each) for each in ended if each.state != "succeeded"]
    return [*told, summary(ended)]


def outcome_line(seen: ContainerView) -> str:
    """Return how a container ended, in one line."""
    parts = [seen.id]
    if seen.name:
        parts.append(f"({seen.name})")
    parts.append(seen.state)
    if seen.exit_code is not None:
        parts.append(f"with exit code {seen.exit_code}")
    lasting = seen.ran_for_s()
    if lasting is not None:
        parts.append(f"after {output.duration(lasting)}")
    if seen.instance:
        parts.append(f"on {seen.instance}")
    if seen.cost_usd:
        parts.append(f"for {output.money(seen.cost_usd)}")
    line = " ".join(parts)
    if seen.reason is not None and seen.reason.message:
        line += f": {seen.reason.message}"
    return output.safe(line)
