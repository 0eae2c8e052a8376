"""What a person sees while containers and jobs are waited for: a live picture, or lines."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Protocol

import click

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.cli import container_words, job_words, output, times
from longshore.dispatcher.cli.answers import CONTAINER_STATES, Awaited, is_final
from longshore.dispatcher.cli.ids import is_job
from longshore.dispatcher.cli.render.job_render import job_outcome_line, progress_line

if TYPE_CHECKING:
    from rich.console import RenderableType

ROWS_KEPT_FREE = 5
ROWS_WITHOUT_TERMINAL_SIZE = 20
LINES_AT_MOST = 20
COUNTS_INTERVAL_S = 1.0
JOBS_INTERVAL_S = 5.0
BAR_WIDTH = 30


class Progress(Protocol):
    """Shows what changes; everything goes to stderr, so that stdout stays the command's answer."""

    def changed(self, seen: Awaited) -> None:
        """Show that a container or a job changed."""
        ...

    def say(self, sentence: str) -> None:
        """Show a sentence about the connection."""
        ...

    def shown(self) -> AbstractContextManager[object]:
        """Return a context in which it is on the screen."""
        ...


def progress_for(identifiers: Sequence[str]) -> Progress:
    """Return the live picture when a person looks at stdout and stderr, else plain lines.

    For jobs and for many containers these tell how many are in each state.
    """
    if output.on_terminal() and sys.stderr.isatty():
        return LiveProgress(identifiers)
    if any(is_job(each) for each in identifiers):
        return CountProgress(identifiers, interval_s=JOBS_INTERVAL_S)
    if many(identifiers):
        return CountProgress(identifiers, interval_s=COUNTS_INTERVAL_S)
    return LineProgress()


def many(things: Sequence[object]) -> bool:
    """Return whether these are more containers than a line each can be read of."""
    return len(things) > LINES_AT_MOST


class LineProgress:
    """One line a change of state."""

    def __init__(self) -> None:
        self._states: dict[str, tuple[str, str | None]] = {}

    def changed(self, seen: Awaited) -> None:
        """Write a line when state or instance changed; the reason alone is no news."""
        if isinstance(seen, JobAnswer):
            click.echo(progress_line(seen), err=True)
            return
        shown = container_words.shown_state(seen)
        # Places are given and taken back while the cloud is at its quota: that is no news.
        state = ("waiting", None) if container_words.is_waiting(seen) else (shown, seen.instance)
        if self._states.get(seen.id) == state or is_final(seen):
            return
        self._states[seen.id] = state
        note = container_words.note(seen)
        click.echo(output.safe(f"{seen.id} {shown}{f': {note}' if note else ''}"), err=True)

    def say(self, sentence: str) -> None:
        """Write the sentence."""
        output.say(sentence)

    def shown(self) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        return nullcontext()


class CountProgress:
    """How many are in each state, a line for each job and one for all containers.

    A line is written when it changed, at most once in `interval_s`.
    """

    def __init__(self, identifiers: Sequence[str], *, interval_s: float) -> None:
        self._awaited = len(set(identifiers))
        self._interval_s = interval_s
        self._views: dict[str, Awaited] = {}
        self._written: list[str] = []
        self._all_known = threading.Event()
        self._stopped = threading.Event()

    def changed(self, seen: Awaited) -> None:
        """Remember it for the next line, which another thread writes."""
        self._views[seen.id] = seen
        if len(self._views) == self._awaited:
            self._all_known.set()

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
            self._all_known.set()
            thread.join()

    def _write_all(self) -> None:
        # Counts that grow while each is looked at for the first time are no news.
        self._all_known.wait()
        self._write()
        while not self._stopped.wait(self._interval_s):
            self._write()

    def _write(self) -> None:
        seen = list(self._views.values())
        # How all of them ended is the answer of the command.
        if len(seen) != self._awaited or all(is_final(each) for each in seen):
            return
        lines = count_lines(seen)
        for line in lines:
            if line not in self._written:
                click.echo(line, err=True)
        self._written = lines


class LiveProgress:
    """A bar for each job and a table for all containers, drawn anew all the time, then gone."""

    def __init__(self, identifiers: Sequence[str]) -> None:
        self._views: dict[str, Awaited | None] = dict.fromkeys(identifiers)
        self._sentence = ""

    def changed(self, seen: Awaited) -> None:
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

        jobs, seen = apart([each for each in list(self._views.values()) if each is not None])
        parts: list[RenderableType] = []
        if jobs:
            parts.append(bars(jobs[:room]))
            room = max(1, room - len(jobs))
        if seen or not jobs:
            table = output.rich_table(
                ("CONTAINER", "NAME", "STATE", "FOR", "WHERE OR WHY"),
                [row(each) for each in most_telling(seen, room)],
                wrap=("WHERE OR WHY",),
                one_line=True,
            )
            hidden = len(seen) - room
            below = summary(seen) + (f" ({hidden} not shown)" if hidden > 0 else "")
            parts += [table, Text(below, style="dim")]
        if self._sentence:
            parts.append(Text(output.safe(self._sentence), style="yellow"))
        return Group(*parts)


def bars(jobs: Sequence[JobAnswer]) -> RenderableType:
    """Return a line for each job: how far it is, in words and as a bar."""
    from rich.progress_bar import ProgressBar  # noqa: PLC0415 - slow, only terminals need it
    from rich.table import Table  # noqa: PLC0415 - slow to import, only terminals need it
    from rich.text import Text  # noqa: PLC0415 - slow to import, only terminals need it

    grid = Table.grid(padding=(0, 1))
    for each in jobs:
        total, ended = each.counts.total, job_words.ended(each.counts)
        bar = ProgressBar(total=max(1, total), completed=ended, width=BAR_WIDTH)
        grid.add_row(Text(progress_line(each)), bar)
    return grid


def apart(seen: Sequence[Awaited]) -> tuple[list[JobAnswer], list[ContainerAnswer]]:
    """Return jobs and containers, each in their order."""
    jobs = [each for each in seen if isinstance(each, JobAnswer)]
    return jobs, [each for each in seen if not isinstance(each, JobAnswer)]


def count_lines(seen: Sequence[Awaited]) -> list[str]:
    """Return a line for each job, then one that counts all containers."""
    jobs, containers = apart(seen)
    lines = [progress_line(each) for each in jobs]
    return [*lines, summary(containers)] if containers else lines


def row(seen: ContainerAnswer) -> tuple[str, ...]:
    """Return a container's cells in the live table."""
    lasting = container_words.ran_for_s(seen)
    spent = times.age(seen.created_at) if lasting is None else output.duration(lasting)
    return (seen.id, container_words.title(seen), seen.state, spent, container_words.note(seen))


def most_telling(seen: Sequence[ContainerAnswer], room: int) -> list[ContainerAnswer]:
    """Return at most `room` containers: what runs before what waits before what has ended."""
    if len(seen) <= room:
        return list(seen)
    rank = {"running": 0, "locked": 1, "queued": 2}
    return sorted(seen, key=lambda each: rank.get(each.state, 3))[:room]


def summary(seen: Sequence[ContainerAnswer]) -> str:
    """Return how many are in each state, as a phrase."""
    count = Counter(each.state for each in seen)
    return ", ".join(f"{count[state]} {state}" for state in CONTAINER_STATES if count[state])


def outcomes(ended: Sequence[Awaited]) -> list[str]:
    """Return how they ended, a line each; of many containers the bad ones and counts only."""
    jobs, containers = apart(ended)
    lines = [outcome_line(each) for each in jobs]
    if not many(containers):
        return lines + [outcome_line(each) for each in containers]
    lines += [outcome_line(each) for each in containers if each.state != "succeeded"]
    return [*lines, summary(containers)]


def outcome_line(seen: Awaited) -> str:
    """Return how a container or a job ended, in one line."""
    if isinstance(seen, JobAnswer):
        return job_outcome_line(seen)
    parts = [seen.id]
    if name := container_words.title(seen):
        parts.append(f"({name})")
    parts.append(seen.state)
    if seen.exit_code is not None:
        parts.append(f"with exit code {seen.exit_code}")
    lasting = container_words.ran_for_s(seen)
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
