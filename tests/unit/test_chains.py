"""Who comes first of those that wait for each other, as `explain` says of the last."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import Dependency
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.explain.explanation import explain
from longshore.dispatcher.state import dependencies
from longshore.pool.messages import (
    AttemptImageSeen,
    CreateInstance,
    Probe,
    SignalAttempt,
    StartAttempt,
)
from longshore.pool.model import AttemptImage
from tests.job_samples import each_of, make_job, make_task
from tests.rigs.engine import Rig, last_commands
from tests.rigs.workflow import rig
from tests.samples import make_container


def sentence(made: Rig, container_id: str) -> str:
    return explain(made.view, made.containers[container_id], made.now).sentence


def line_of_containers(made: Rig, number: int) -> None:
    made.submit(make_container(1, image="a/b"))
    for each in range(2, number + 1):
        made.submit(make_container(each, after=(Dependency(of=f"c-{each - 1}"),)))


def test_the_last_of_a_line_is_told_who_is_first() -> None:
    made = rig()
    line_of_containers(made, 4)
    waits = "it waits for c-3 to succeed; the first of its chain is c-1 (3 before it), which"
    assert sentence(made, "c-4") == f"c-4 waits: {waits} runs on i-001 (t8), attempt 1"
    assert sentence(made, "c-2") == (
        "c-2 waits: it waits for c-1 to succeed; c-1 runs on i-001 (t8), attempt 1"
    )
    made.set_priority("c-1", 0)
    made.exit("c-1-1", 143)
    assert sentence(made, "c-4") == f"c-4 waits: {waits} waits: held back: its priority is 0"


def both(made: Rig) -> tuple[str, str]:
    """Return what the next of a line of three, and the last, are told that the first does."""
    next_ = sentence(made, "c-2").removeprefix("c-2 waits: it waits for c-1 to succeed; c-1 ")
    _, _, last = sentence(made, "c-3").partition("the first of its chain is c-1 (2 before it), ")
    return next_, last.removeprefix("which ")


def test_whatever_the_first_does_is_told_to_the_next_and_to_the_last() -> None:
    made = rig()
    made.silent = {CreateInstance, Probe, StartAttempt, SignalAttempt}
    line_of_containers(made, 3)
    seen = [both(made)]
    (create,) = last_commands(made, CreateInstance)
    made.create_now(create)
    made.settle()
    seen.append(both(made))
    assert made.states()["c-1"] == "locked"
    made.silent = {StartAttempt, SignalAttempt}
    (probe,) = last_commands(made, Probe)
    made.probe_now(probe)
    made.settle()
    assert made.states()["c-1"] == "locked"
    seen.append(both(made))
    (start,) = last_commands(made, StartAttempt)
    made.start_now(start)
    made.settle()
    seen.append(both(made))
    pulling = AttemptImage(pulling=True)
    made.send(AttemptImageSeen(worker_id="i-001", attempt_id="c-1-1", image=pulling))
    seen.append(both(made))
    made.cancel("c-1")
    seen.append(both(made))
    assert [told for told, _ in seen] == [told for _, told in seen]
    on = "on i-001 (t8), attempt 1"
    assert [told for told, _ in seen] == [
        "waits: it has a place on a new t8 that is being created",
        "waits: it has a place on i-001 (t8), which is not ready yet",
        f"is being started {on}",
        f"runs {on}",
        f"waits since {moment(made.now)} for its image a/b to be pulled {on}",
        f"is being cancelled {on}; KILL at {moment(made.now + 120)}",
    ]


def test_the_way_goes_through_jobs_tasks_and_elements() -> None:
    made = rig()
    made.submit(make_container(1))
    job, containers = make_job(
        1,
        make_task("split", after=("c-1",)),
        make_task("align", size=3, after=("j-1/split",)),
        make_task("count", size=3, after=(each_of("j-1/align"),)),
    )
    made.submit_job(job, containers)
    made.submit_job(*make_job(2, make_task(after=("j-1",))))
    assert "the first of its chain is c-1 (2 before it)" in sentence(made, "c-1001")
    assert "the first of its chain is c-1 (3 before it)" in sentence(made, "c-1005")
    assert "the first of its chain is c-1 (2 before it)" in sentence(made, "c-2000")
    made.exit("c-1-1")
    made.exit("c-1000-1")
    made.exit("c-1002-1")
    assert sentence(made, "c-2000").endswith(
        "it waits for j-1 to succeed; c-1001 runs on i-001 (t8), attempt 1"
    ), "its job goes on"
    assert "first of its chain" not in sentence(made, "c-1006"), "its element runs"


def test_what_waits_for_others_counts_only_where_nobody_else_of_the_task_runs() -> None:
    made = rig()
    made.submit(make_container(1))
    tasks = (make_task("a", after=("c-1",)), make_task("b"), make_task("c", after=("j-1/b",)))
    made.submit_job(*make_job(1, *tasks))
    made.submit_job(*make_job(2, make_task(after=("j-1",))))
    made.submit(make_container(2, after=(Dependency(of="j-2"),)))
    assert sentence(made, "c-2").endswith(
        "the first of its chain is c-1001 (2 before it), which runs on i-001 (t8), attempt 1"
    )


def test_the_way_is_as_long_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "MOST_LINKS", 2)
    made = rig()
    line_of_containers(made, 6)
    assert "the first that was looked at of its chain is c-4 (2 before it), which waits: it " in (
        sentence(made, "c-6")
    )


def test_a_job_that_is_too_large_is_not_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "MOST_CONTAINERS", 2)
    made = rig()
    made.submit_job(*make_job(1, make_task("a", size=3)))
    made.submit(make_container(1, after=(Dependency(of="j-1/a"),)))
    made.submit(make_container(2, after=(Dependency(of="c-1"),)))
    assert sentence(made, "c-2").endswith("the first of its chain is j-1/a (2 before it)")


def estimate(made: Rig, container_id: str) -> str:
    found = explain(made.view, made.containers[container_id], made.now).waiting
    assert found is not None
    return found.estimate.basis


def test_who_waits_for_one_that_can_never_start_never_starts_either_and_is_told_why() -> None:
    made = rig()
    made.submit(make_container(1, cpus=1000))
    made.submit(make_container(2, after=(Dependency(of="c-1"),)))
    made.submit(make_container(3, after=(Dependency(of="c-2"),)))
    why = "no configured instance type would do"
    assert sentence(made, "c-2") == f"c-2 waits: it waits for c-1 to succeed; c-1 waits: {why}"
    for each in ("c-2", "c-3"):
        assert estimate(made, each) == (
            f"never, as things are: c-1 must end first, and cannot start: {why}"
        )


def test_an_element_whose_array_can_never_start_is_told_so() -> None:
    made = rig()
    made.submit_job(*make_job(1, make_task("a", size=2, max_running=1, cpus=1000)))
    assert estimate(made, "c-1001") == (
        "never, as things are: the others of its array cannot start either: "
        "no configured instance type would do"
    )
