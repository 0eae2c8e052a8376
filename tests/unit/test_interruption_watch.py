"""The runner's watch for the cloud's word that it takes an instance back: real processes."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longshore.pool.runner import interruption
from longshore.pool.runner.interruption import InterruptionWatch, parse_watch
from longshore.pool.runner.wire import Refusal

AT = "2026-01-31T23:59:59Z"


class Site:
    """A watch, its selector, and what it found."""

    def __init__(self, command: str) -> None:
        self.selector = selectors.PollSelector()
        self.found: list[str] = []
        self.watch = InterruptionWatch(command, dict(os.environ), self.selector, self.found.append)

    def serve(self, *, now: float, until: float = 30.0) -> float | None:
        """Serve what comes at the time `now`, until it has ended; return when it is due again."""
        deadline = time.monotonic() + until
        due = self.watch.tick(now)
        while due is None and self.selector.get_map() and time.monotonic() < deadline:
            for key, _ in self.selector.select(1.0):
                key.data(key.fd, now)
            due = self.watch.tick(now)
        return due


@pytest.fixture
def sites() -> Iterator[list[Site]]:
    made: list[Site] = []
    yield made
    for site in made:
        site.watch.close()
        site.selector.close()
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def site_of(sites: list[Site], command: str) -> Site:
    sites.append(Site(command))
    return sites[-1]


def test_the_word_is_told_once_and_the_command_is_not_run_again(sites: list[Site]) -> None:
    site = site_of(sites, f"echo {AT}; exec sleep 1000")
    assert site.serve(now=1.0) is None
    assert site.found == [AT]
    assert not site.selector.get_map()
    assert site.watch.tick(1000.0) is None


@pytest.mark.parametrize(
    "command",
    ["exit 0", "echo soon", "echo 2026-01-31", "head -c 5000 /dev/zero", f"echo no {AT}"],
)
def test_what_ends_without_a_time_is_run_again_after_five_seconds(
    command: str, sites: list[Site]
) -> None:
    site = site_of(sites, command)
    assert site.serve(now=100.0) == 100.0 + interruption.RETRY_S
    assert site.found == []
    assert site.watch.tick(104.9) == 105.0
    assert not site.selector.get_map()
    assert site.watch.tick(105.0) is None
    assert site.selector.get_map()


def test_closing_ends_all_that_the_command_has_started(sites: list[Site], tmp_path: Path) -> None:
    note = tmp_path / "pid"
    site = site_of(sites, f"sleep 1000 & echo $! > {note}; wait")
    site.watch.tick(0.0)
    deadline = time.monotonic() + 30
    while not (note.exists() and note.read_text().strip()) and time.monotonic() < deadline:
        site.selector.select(0.01)
    site.watch.close()
    stat = Path("/proc", note.read_text().strip(), "stat")
    while _runs(stat) and time.monotonic() < deadline:
        site.selector.select(0.01)
    assert not _runs(stat)


def test_what_a_command_left_that_was_waited_for_is_ended_too(
    sites: list[Site], tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    site = site_of(sites, f"sleep 1000 & echo $! > {note}; echo {AT}")
    site.watch.tick(0.0)
    # Before its word is read: the runner may hear of the end first.
    os.waitpid(-1, 0)
    stat = Path("/proc", note.read_text().strip(), "stat")
    assert _runs(stat)
    site.serve(now=0.0)
    assert site.found == [AT]
    deadline = time.monotonic() + 30
    while _runs(stat) and time.monotonic() < deadline:
        site.selector.select(0.01)
    assert not _runs(stat)


def _runs(stat: Path) -> bool:
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_without_a_command_nothing_is_watched(sites: list[Site]) -> None:
    site = site_of(sites, parse_watch(None))
    assert site.watch.tick(0.0) is None
    assert not site.selector.get_map()


@pytest.mark.parametrize("bad", ["", 5, ["true"], "x" * 16_385, "echo \0", "echo ä"])
def test_a_command_that_is_none_is_refused(bad: object) -> None:
    with pytest.raises(Refusal, match="interruption_watch must be"):
        parse_watch(bad)
