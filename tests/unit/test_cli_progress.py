"""What is seen while containers are waited for: lines, counts, and the live table."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.render.progress import (
    CountProgress,
    LineProgress,
    LiveProgress,
    most_telling,
    outcomes,
    progress_for,
)
from tests.cli_server import await_true


def container(identifier: str = "c-1", **others: object) -> ContainerAnswer:
    return read({"id": identifier, "state": "queued", **others}, ContainerAnswer)


def test_lines_are_written_for_news_only(capsys: pytest.CaptureFixture[str]) -> None:
    progress = LineProgress()
    for seen in (
        container(waiting="position 2"),
        container(waiting="position 1"),
        container(state="locked", instance="i-1"),
        container(state="queued"),
        container(state="running", instance="i-1"),
        container(state="running", instance="i-1"),
        container(state="succeeded", instance="i-1"),
    ):
        progress.changed(seen)
    progress.say("lost it")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "c-1 queued: position 2",
        "c-1 running: i-1",
        "longshore: lost it",
    ]


def test_many_are_counted_when_the_counts_change(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.cli.render.progress.COUNTS_INTERVAL_S", 0.01)
    ids = [f"c-{number}" for number in range(30)]
    progress = progress_for([*ids, "c-0"])
    assert isinstance(progress, CountProgress)
    written = []

    def came(line: str) -> bool:
        written.append(capsys.readouterr().err)
        return line in "".join(written)

    with progress.shown():
        for each in ids:
            progress.changed(container(each))
        await_true(lambda: came("30 queued\n"))
        for each in ids[:7]:
            progress.changed(container(each, state="running"))
            progress.changed(container(each, state="queued"))
        for each in ids[:7]:
            progress.changed(container(each, state="running"))
        await_true(lambda: came("23 queued, 7 running\n"))
        progress.say("lost it")
    assert "longshore: lost it\n" in capsys.readouterr().err
    lines = "".join(written).splitlines()
    assert all(previous != line for previous, line in pairwise(lines))
    assert isinstance(progress_for(ids[:20]), LineProgress)


def test_of_many_only_what_did_not_succeed_is_told_of_one_by_one() -> None:
    ended = [container(f"c-{number}", state="succeeded") for number in range(20)]
    assert len(outcomes(ended)) == 20
    ended.append(container("c-bad", state="failed", exit_code=2))
    assert outcomes(ended) == ["c-bad failed with exit code 2", "20 succeeded, 1 failed"]


def test_with_little_room_what_runs_is_shown_first() -> None:
    states = ("succeeded", "queued", "running", "locked")
    seen = [container(f"c-{index}", state=state) for index, state in enumerate(states)]
    assert [each.state for each in most_telling(seen, 3)] == ["running", "locked", "queued"]
    assert most_telling(seen, 4) == seen


def test_the_live_table_shows_states_reasons_and_what_is_hidden() -> None:
    from rich.console import Console

    progress = LiveProgress(["c-1", "c-2"])
    progress.changed(container("c-1", state="running", instance="i-7"))
    progress.changed(container("c-2", waiting="[red]no room[/red]"))
    progress.say("trying again")
    console = Console(file=io.StringIO(), width=100)
    console.print(progress._drawing(5))
    console.print(progress._drawing(1))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "i-7" in text
    assert "[red]no room[/red]" in text
    assert "1 queued, 1 running" in text
    assert "(1 not shown)" in text
    assert "trying again" in text or "no room" in text
