"""The demo's judgement: it must notice everything that is not as promised."""

from __future__ import annotations

import io
from typing import Any

import pytest

from longshore.dispatcher.api.schemas.cost import CostAnswer
from longshore.dispatcher.cli.answers import read
from longshore.dispatcher.cli.demo.report import LineScreen, LiveScreen, print_tables
from longshore.dispatcher.cli.demo.scenario import ALONE, LIST, PROMISES, QUOTA_INSTANCES
from longshore.dispatcher.cli.demo.story import Story

BEGAN = "2024-01-01T00:00:00Z"
ENDED = "2024-01-01T00:00:02.5Z"


def container(name: str, **others: Any) -> dict[str, Any]:
    promise = PROMISES[name]
    return {
        "id": f"c-{name}",
        "name": name,
        "priority": promise.priority,
        "cpus": promise.cpus,
        **others,
    }


def ended(name: str, **others: Any) -> dict[str, Any]:
    promise = PROMISES[name]
    return container(
        name,
        **{
            "state": promise.state,
            "exit_code": promise.exit_code,
            "instance": "i-1",
            "instance_type": "small",
            "started_at": BEGAN,
            "finished_at": ENDED,
            "attempts": [{"id": "a", "instance": "i-1", "started_at": BEGAN}],
            **others,
        },
    )


def instance(state: str, name: str = "i-1") -> dict[str, Any]:
    return {"id": name, "state": state, "instance_type": "small", "price_usd_per_hour": 0.05}


def costs(by_name: dict[str, str], total: str) -> CostAnswer:
    """Return what the ledger says of the demo."""
    rows: list[dict[str, Any]] = [
        {"by": {"job": n}, "amounts": {"direct": usd}, "from": "f", "to": "t"}
        for n, usd in by_name.items()
    ]
    return read({"items": rows, "total": {"total": total}}, CostAnswer)


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def story(told: list[str]) -> Story:
    """A story in which everything went as promised."""
    made = Story(tell=lambda elapsed_s, sentence: told.append(f"{elapsed_s:.1f} {sentence}"))
    for name in PROMISES:
        made.hear_container(container(name, state="queued"), 0.1)
        made.hear_container(container(name, state="running", instance="i-1"), 2.0)
        made.hear_container(ended(name), 4.5)
        made.outputs[f"c-{name}"] = f"{PROMISES[name].says}\n"
    for elapsed_s, state in ((0, "booting"), (1, "running"), (5, "idle"), (8, "shutdown")):
        made.hear_instance(instance(state), float(elapsed_s))
    made.hear_instance(instance("gone"), 9.0)
    made.hear_costs(costs(dict.fromkeys(PROMISES, "0.0001") | {"(none)": "0"}, "0.0032"))
    return made


def test_the_scenario_is_what_was_asked_for() -> None:
    assert len(PROMISES) == len(LIST) + len(ALONE) >= 8
    assert len(LIST) == 3
    assert [each.name for each in ALONE if each.cancelled] == ["endless"]
    assert [each.exit_code for each in ALONE if each.state == "failed"] == [3]
    assert sum(each.cpus for each in PROMISES.values()) > 4 * QUOTA_INSTANCES


def test_a_story_as_promised_breaks_nothing(story: Story, told: list[str]) -> None:
    assert story.broken_promises() == []
    assert story.over()
    assert "0.1 urgent is queued, priority 900, 1 cpu" in told
    assert "2.0 urgent runs on i-1 (?)" in told
    assert "4.5 faulty failed with exit code 3" in told
    assert "9.0 instance i-1 (small, $0.05/h): gone" in told


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"state": "failed", "exit_code": 1}, "urgent is failed, and not succeeded"),
        ({"state": "queued", "exit_code": None}, "urgent is queued, and not succeeded"),
        ({"exit_code": 9}, "urgent ended with 9, and not 0"),
    ],
)
def test_a_container_that_ended_otherwise_is_told(
    told: list[str], story: Story, change: dict[str, Any], sentence: str
) -> None:
    other = Story(tell=lambda _elapsed_s, sentence: told.append(sentence))
    other.instances, other.outputs, other.seen_running = (
        story.instances,
        story.outputs,
        story.seen_running,
    )
    for name in PROMISES:
        other.hear_container(ended(name, **(change if name == "urgent" else {})), 1.0)
    assert other.broken_promises() == [sentence]
    assert other.containers_over() == ("queued" not in sentence)


def test_everything_else_that_breaks_a_promise_is_told(story: Story) -> None:
    story.outputs["c-report"] = "something else\n"
    assert story.broken_promises() == ["the log of report lacks the line 'report is done'"]
    story.outputs["c-report"] = "report is done\n"
    story.seen_running.remove("c-endless")
    assert "not seen running" in story.broken_promises()[0]
    story.seen_running.add("c-endless")
    del story.containers["c-archive"]
    assert story.broken_promises() == ["archive was never submitted"]


def test_instances_that_stay_or_never_idle_or_are_too_many_are_told(story: Story) -> None:
    story.hear_instance(instance("booting", "i-2"), 9.0)
    assert not story.over()
    assert story.broken_promises() == [
        "instance i-2 is still there (booting)",
    ]
    for number in range(3, 3 + QUOTA_INSTANCES):
        story.hear_instance(instance("idle", f"i-{number}"), 9.0)
    assert any("instances at once" in sentence for sentence in story.broken_promises())
    story.instances = {"i-1": story.instances["i-1"]}
    story.instances["i-1"].first_idle_s = 7.9
    assert "no instance was idle for 3 s before it was shut down" in story.broken_promises()
    story.instances.clear()
    assert "no instance was ever seen" in story.broken_promises()


def test_what_was_told_before_does_not_undo_the_end(story: Story) -> None:
    assert story.hear_container(container("urgent", state="running"), 9.0) is None
    assert story.containers["c-urgent"].state == "succeeded"


def test_why_a_container_waits_is_told_once(told: list[str]) -> None:
    story = Story(tell=lambda _elapsed_s, sentence: told.append(sentence))
    waiting = container("archive", state="queued", waiting="The quota is reached.")
    story.hear_container(container("archive", state="queued"), 0.0)
    story.hear_waiting(waiting, 1.0)
    story.hear_waiting(waiting, 2.0)
    assert told[1:] == ["archive waits: The quota is reached."]


def test_the_tables_tell_price_time_and_life(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    print_tables(story)
    lines = capsys.readouterr().out.splitlines()
    (faulty,) = (line.split() for line in lines if line.startswith("faulty"))
    assert faulty == ["faulty", "1", "500", "i-1", "small", "2.5s", "$0.000100", "3", "failed"]
    (life,) = (line for line in lines if line.startswith("i-1"))
    assert life.split()[:7] == ["i-1", "small", "$0.05/h", "0.0", "5.0", "8.0", "9.0"]
    assert f" {len(PROMISES)}: " in life
    told = "$0.001000 in all; with boots and idle time their instances cost $0.003200."
    assert f"{len(PROMISES)} containers, {told}" in lines


def test_the_picture_shows_containers_instances_and_the_last_happenings(story: Story) -> None:
    from rich.console import Console

    screen = LiveScreen()
    for number in range(20):
        screen.tell(float(number), f"happening {number} [bold]")
    console = Console(file=io.StringIO(), width=120)
    console.print(screen._drawing(story))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "urgent" in text
    assert "$0.05/h" in text
    assert "happening 19 [bold]" in text
    assert "happening 3 " not in text


def test_lines_for_pipes(capsys: pytest.CaptureFixture[str], story: Story) -> None:
    screen = LineScreen()
    with screen.shown(lambda: story):
        screen.tell(1.25, "it \x1b[31mhappened")
    assert capsys.readouterr().out == "   1.2s  it \\x1b[31mhappened\n"
