"""What the checks make of a job's body: all problems at once, circles, limits, and the job."""

from __future__ import annotations

import json
import time

import pytest

from longshore.dispatcher.api.validate.dependencies import dependencies
from longshore.dispatcher.domain.containers import Dependency, DependencyOn
from longshore.drivers.errors import InvalidRequest
from tests.job_bodies import ONE, chain, decoder, refused, task


def test_problems_of_all_tasks_and_kinds_come_together() -> None:
    job = {
        "nam": "x",
        "priority": -1,
        "type": "elastik",
        "labels": {"a": 1},
        "tasks": [
            task("a", "b", memory="4G", array=0),
            {"name": "b", "comand": ["x"], "after": ["a", "nobody"]},
            3,
            task("a", {"of": "b", "each": "yes"}, priority=1),
            {"name": 7, "command": []},
        ],
    }
    assert [path for path, _ in refused(job)] == [
        "nam",
        "priority",
        "type",
        "labels.a",
        "tasks[0].memory",
        "tasks[0].array",
        "tasks[1].comand",
        "tasks[1].command",
        "tasks[2]",
        "tasks[3].priority",
        "tasks[3].after[0].each",
        "tasks[4].name",
        "tasks[4].command",
        "tasks[3].name",
        "tasks[1].after[1]",
        "tasks[1].after[0]",
    ]


def test_an_array_that_is_not_known_makes_no_second_problem() -> None:
    job = {"tasks": [task("a", array=0), task("b", {"of": "a", "each": True}, array=3)]}
    assert [path for path, _ in refused(job)] == ["tasks[0].array"]
    job = {"tasks": [task("a", array=3), task("b", {"of": "a", "each": True}, array=0)]}
    assert [path for path, _ in refused(job)] == ["tasks[1].array"]


def test_every_circle_that_stands_alone_is_told() -> None:
    job = {
        "tasks": [
            task("a", "b"),
            task("b", "a"),
            task("c", "a", "d"),
            task("d", "c"),
            task("e", "d", "e"),
            task("f", "e"),
        ]
    }
    circle = "closes a circle of tasks that wait for each other"
    assert refused(job) == [
        ("tasks[1].after[0]", f"{circle}: a -> b -> a; break it"),
        ("tasks[3].after[0]", f"{circle}: c -> d -> c; break it"),
        ("tasks[4].after[1]", f"{circle}: e -> e; break it"),
    ]


def test_a_long_circle_is_told_by_its_ends() -> None:
    tasks = chain(10_000)
    tasks[-1]["after"] = ["t9999"]
    [(path, message)] = refused({"tasks": tasks})
    assert path == "tasks[9999].after[0]"
    assert message == (
        "closes a circle of tasks that wait for each other: t9999 -> t9998 -> t9997 -> t9996"
        " -> t9995 -> (9990 more) -> t4 -> t3 -> t2 -> t1 -> t0 -> t9999; break it"
    )


def test_names_in_a_circle_act_on_no_terminal() -> None:
    [(_, first), (_, message)] = refused({"tasks": [task("a\x1b[2J", "a\x1b[2J")]})
    assert "\x1b" not in first + message
    assert '"a\\u001b[2J" -> "a\\u001b[2J"' in message


def test_limits_of_what_a_job_may_have() -> None:
    assert refused({"tasks": chain(4)}, job_tasks=3) == [
        (
            "tasks",
            "has 4 entries: a job has 1 to 3 tasks; many that are alike are one, with an array",
        )
    ]
    many = {"tasks": [*chain(3), task("x", "t0", "t1", "t2")]}
    assert refused(many, after_entries=2) == [
        ("tasks[3].after", "has 3 entries: wait for at most 2, or for a whole job")
    ]
    assert refused(many, after_entries_in_all=4) == [
        (
            "tasks",
            (
                "wait for 5 things in all: at most 4 are allowed, let a task that does nothing"
                " stand between many and many"
            ),
        )
    ]
    assert len(decoder(job_tasks=4, after_entries=3, after_entries_in_all=5).job(many).tasks) == 4


def test_at_most_a_hundred_problems_are_listed() -> None:
    found = refused({"tasks": [task(f"t{n}", "x") for n in range(1000)]})
    assert len(found) == 101
    assert found[-1] == ("", "there may be more: only the first 100 are listed")


def test_a_job_as_it_was_meant() -> None:
    made = decoder().job(
        {
            "name": "pipeline",
            "type": "batch",
            "priority": 700,
            "project": "vision",
            "labels": {"b": "2", "a": "1"},
            "tasks": [
                task("merge", {"of": "align", "on": "end"}, "c-7", "j-8", "j-8/x"),
                task("align", {"of": "split", "each": True}, array={"size": 5, "max_running": 2}),
                task("split", array=5, time_limit_s=60, not_before="2023-11-14T22:13:20Z"),
            ],
        }
    )
    assert (made.name, made.priority, made.project) == ("pipeline", 700, "vision")
    assert made.labels == (("a", "1"), ("b", "2"))
    merge, align, split = made.tasks
    assert merge.spec.after == (
        Dependency(of="/align", on=DependencyOn.END),
        Dependency(of="c-7"),
        Dependency(of="j-8"),
        Dependency(of="j-8/x"),
    )
    assert align.spec.after == (Dependency(of="/split", each=True),)
    assert [(t.name, t.spec.name, t.size, t.is_array, t.max_running) for t in made.tasks] == [
        ("merge", "merge", 1, False, None),
        ("align", "align", 5, True, 2),
        ("split", "split", 5, True, None),
    ]
    assert (split.spec.time_limit_s, split.spec.not_before) == (60, 1_700_000_000.0)


def test_what_is_left_out_gets_the_defaults() -> None:
    made = decoder().job({"name": "train", "tasks": [{**ONE, "array": 1}]})
    assert (made.priority, made.project, made.labels) == (500, "default", ())
    [only] = made.tasks
    assert (only.name, only.spec.name) == ("", "train"), "its containers are called as the job"
    assert (only.size, only.is_array) == (1, True)


def test_the_order_of_keys_means_nothing_and_everything_else_something() -> None:
    one = decoder().decode(b'{"name": "a", "tasks": [{"command": ["x"], "array": 2}]}')
    same = decoder().decode(b'{"tasks": [{"array": 2, "command": ["x"]}], "name": "a"}')
    other = decoder().decode(b'{"tasks": [{"array": 3, "command": ["x"]}], "name": "a"}')
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_entries_are_stored_with_siblings_marked() -> None:
    assert dependencies(["a", "c-1", "j-1/a"]) == (
        Dependency(of="/a"),
        Dependency(of="c-1"),
        Dependency(of="j-1/a"),
    )


LARGE = {
    "a chain": (chain(10_000), 0),
    "many to many": (
        [task(f"task_{n:06}", *(f"task_{m:06}" for m in range(n % 10))) for n in range(10_000)],
        0,
    ),
    "typing errors": ([task(f"task_{n:06}", f"tusk_{n:06}") for n in range(10_000)], 101),
    "circles in circles": (
        [*(task(f"t{n}", f"t{n + 1}", f"t{9998 - n}") for n in range(9_999)), task("t9999")],
        1,
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_the_largest_jobs_are_looked_through_in_seconds(name: str) -> None:
    tasks, problems = LARGE[name]
    body = json.dumps({"tasks": tasks}).encode()
    began = time.process_time()
    if problems:
        with pytest.raises(InvalidRequest) as caught:
            decoder().decode(body)
        assert len(caught.value.problems) == problems
    else:
        assert len(decoder().decode(body).job.tasks) == 10_000
    # One second; what is not linear takes minutes.
    assert time.process_time() - began < 20
