"""How SQLite answers the store's questions: from indexes, so that finished containers are free."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from longshore.dispatcher.domain.containers import ContainerState, Dependency
from longshore.dispatcher.domain.efficiency import EfficiencyFilter
from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.domain.messages import RequestCancel, SaveAttempt, SaveInstance
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter
from longshore.dispatcher.store import sqlite
from longshore.dispatcher.store.reader import Reader
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.usage_reader import fetch_measured_runs
from tests.store_values import (
    SPEC,
    attempt,
    container,
    insert,
    insert_job,
    instance,
    job,
    task,
    url_in,
)

FILTERS = [
    ContainerFilter(),
    ContainerFilter(user="ann"),
    ContainerFilter(project="apollo", user="ann"),
    ContainerFilter(name="demo", states=(ContainerState.FAILED,)),
    ContainerFilter(states=(ContainerState.FAILED, ContainerState.SUCCEEDED)),
    ContainerFilter(instance_id="i-1"),
    ContainerFilter(instance_id="i-1", user="ann", states=(ContainerState.FAILED,)),
    ContainerFilter(instance_id="i-1", job_id="j-1", task="b"),
    ContainerFilter(job_id="j-1", task="b", project="apollo", states=(ContainerState.FAILED,)),
    ContainerFilter(job_id="j-1", task="b", array_index=1),
]
JOB_FILTERS = [
    JobFilter(),
    JobFilter(user="ann"),
    JobFilter(project="apollo", user="ann"),
    JobFilter(name="night", states=(JobState.FAILED,)),
    JobFilter(states=(JobState.FAILED, JobState.SUCCEEDED)),
    JobFilter(parent="j-9"),
    JobFilter(parent="j-9", user="ann", states=(JobState.PENDING, JobState.RUNNING)),
]
OF_WHOLE_JOBS = [
    ContainerFilter(job_id="j-1"),
    ContainerFilter(job_id="j-1", user="ann", project="apollo", name="demo"),
    ContainerFilter(job_id="j-1", states=(ContainerState.FAILED,)),
    ContainerFilter(job_id="j-1", states=(ContainerState.FAILED, ContainerState.QUEUED)),
]


def test_no_question_scans_or_sorts_finished_containers(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    insert(store, *(container(n) for n in range(1, 4)))
    tried = [SaveAttempt(attempt=attempt(container(n))) for n in range(1, 4)]
    gone = [instance(f"i-{n}", gone_at=9.0, gone_reason="idle") for n in (2, 3)]
    known = [SaveInstance(instance=each) for each in (instance(), *gone)]
    store.write([*tried, *known]).result(30)
    store.write([RequestCancel(container_id=container(1).id)]).result(30)
    after = (Dependency(of="j-1/b"), Dependency(of="j-2"))
    waiting = replace(SPEC, after=after)
    insert_job(store, job(1, task("a"), task("b", 2), name="night"), 10)
    insert_job(store, job(2, task("b", 2, spec=waiting), state=JobState.FAILED), 20)
    store.close()

    asked = questions(tmp_path / "longshore.db", ask_everything)
    bad = [
        f"{step}: {statement}"
        for statement, steps in asked
        for step in steps
        if is_costly(step, statement)
    ]
    assert len(asked) > 60
    assert bad == []


def test_a_start_looks_for_what_has_ended_among_the_jobs_that_have_not(tmp_path: Path) -> None:
    Store.open(url_in(tmp_path)).close()

    def ask(reader: Reader) -> None:
        reader.recover()

    asked = questions(tmp_path / "longshore.db", ask)
    (steps,) = [steps for statement, steps in asked if "max(containers.sequence)" in statement]
    assert "SEARCH containers USING INDEX containers_by_job (job_id=?)" in steps
    assert "SEARCH jobs USING INDEX jobs_by_state (state=?)" in steps
    assert not any(step.startswith("SCAN") for step in steps)


def test_a_question_for_a_jobs_runs_looks_at_these_only(tmp_path: Path) -> None:
    Store.open(url_in(tmp_path)).close()

    def ask(reader: Reader) -> None:
        reader.jobs(JobFilter(parent="j-1"), cursor="", limit=1)

    asked = questions(tmp_path / "longshore.db", ask)
    by_end = ["SEARCH jobs USING COVERING INDEX jobs_by_parent (parent=? AND ended=?)"]
    assert [steps for _, steps in asked] == [by_end] * 4


def test_a_question_for_a_whole_job_looks_at_that_job_only(tmp_path: Path) -> None:
    Store.open(url_in(tmp_path)).close()

    def ask(reader: Reader) -> None:
        for which in OF_WHOLE_JOBS:
            reader.containers(which, cursor="", limit=1)

    asked = questions(tmp_path / "longshore.db", ask)
    # They are sorted, which takes as long as the job is large.
    sort = "USE TEMP B-TREE FOR ORDER BY"
    assert [steps for _, steps in asked] == [
        ["SEARCH containers USING COVERING INDEX containers_by_job (job_id=?)", sort],
        *[["SEARCH containers USING INDEX containers_by_job (job_id=?)", sort]] * 3,
    ]


def equal_to(step: str) -> set[str]:
    """Return the columns by which a step finds its rows."""
    return set(re.findall(r"(\w+)=\?", step))


@pytest.mark.parametrize("table", ["containers", "jobs"])
def test_any_two_filters_are_answered_from_one_index_without_walking_another(
    tmp_path: Path, table: str
) -> None:
    Store.open(url_in(tmp_path)).close()
    values: dict[str, str] = {"user": "ann", "project": "apollo", "name": "night"}
    if table == "jobs":
        values["parent"] = ""
    for wanted in [*combinations(values, 1), *combinations(values, 2)]:
        asked_for = {name: values[name] for name in wanted if name != "parent"}

        def ask(reader: Reader, given: dict[str, str] = asked_for, by: Any = wanted) -> None:
            if table == "jobs":
                reader.jobs(JobFilter(own="parent" in by, **given), cursor="", limit=5)  # type: ignore[arg-type]  # texts
            else:
                reader.containers(ContainerFilter(**given), cursor="", limit=5)  # type: ignore[arg-type]  # texts

        asked = questions(tmp_path / "longshore.db", ask)
        assert len(asked) == 4, "one for what goes on, and one for each way to end"
        for _, (step,) in asked:
            assert equal_to(step) == {*wanted, "ended"}, step
            assert "COVERING" in step


def test_a_state_beside_other_filters_is_found_by_an_index_too(tmp_path: Path) -> None:
    Store.open(url_in(tmp_path)).close()
    used = {}
    for state in ContainerState:

        def ask(reader: Reader, state: ContainerState = state) -> None:
            which = ContainerFilter(user="ann", project="apollo", states=(state,))
            reader.containers(which, cursor="", limit=5)

        ((_, (step,)),) = questions(tmp_path / "longshore.db", ask)
        used[state] = equal_to(step)
    by_both = {"user", "project", "ended"}
    # Of those with a place there are few at a time, whoever's they are.
    few = {ContainerState.LOCKED, ContainerState.RUNNING}
    assert used == {each: {"state"} if each in few else by_both for each in ContainerState}


def test_how_long_two_filters_take_that_do_not_meet_does_not_grow(tmp_path: Path) -> None:
    taken = []
    for size in (60, 3000):
        directory = tmp_path / str(size)
        store = Store.open(url_in(directory))
        halves: tuple[dict[str, Any], ...] = (
            {"user": "ann", "project": "apollo", "spec": replace(SPEC, name="train")},
            {"user": "bob", "project": "zeus", "spec": replace(SPEC, name="eval")},
        )
        done = ContainerState.SUCCEEDED
        insert(store, *(container(n, state=done, **halves[n % 2]) for n in range(1, size + 1)))
        store.close()
        taken.append(
            steps_of(directory / "longshore.db", ContainerFilter(user="ann", project="zeus"))
            + steps_of(directory / "longshore.db", ContainerFilter(user="bob", name="train"))
            + steps_of(directory / "longshore.db", ContainerFilter(project="zeus", name="train"))
        )
    assert taken[1] <= 2 * taken[0], taken


def steps_of(path: Path, which: ContainerFilter) -> int:
    """Return how many steps of SQLite's machine a page of nothing takes."""
    engine = sqlite.reading_engine(path)
    taken = 0

    def count() -> int:
        nonlocal taken
        taken += 1
        return 0

    def listen(connection: sqlite3.Connection, _record: object) -> None:
        connection.set_progress_handler(count, 1)

    event.listen(engine, "connect", listen)
    page = Reader(engine).containers(which, cursor="", limit=100)
    engine.dispose()
    assert page.items == ()
    return taken


def ask_everything(reader: Reader) -> None:
    for which in FILTERS:
        cursor = reader.containers(which, cursor="", limit=1).next_cursor or ""
        reader.containers(which, cursor=cursor, limit=1)
    for wanted in JOB_FILTERS:
        cursor = reader.jobs(wanted, cursor="", limit=1).next_cursor or ""
        reader.jobs(wanted, cursor=cursor, limit=1)
    reader.dependency_status(
        [Dependency(of=of, each=True) for of in ("c-1", "j-1", "j-1/b", "j-3/b")]
    )
    for runs in (
        EfficiencyFilter(),
        EfficiencyFilter(user="ann", projects=("a",), name="x", since=1.0),
    ):
        reader.ask(partial(fetch_measured_runs, which=runs))
    reader.recover()
    reader.container("c-1")
    reader.containers_of(["c-00000001", "c-00000002"])
    reader.container("c-00000011")
    reader.job("j-1")
    reader.instance("i-1")
    cursor = reader.gone_instances(cursor="", limit=1).next_cursor or ""
    assert cursor
    reader.gone_instances(cursor=cursor, limit=1)
    reader.last_sequence()
    reader.last_job_sequence()


def questions(path: Path, ask: Callable[[Reader], None]) -> list[tuple[str, list[str]]]:
    """Return what `ask` asks, each statement with the steps that SQLite answers it in."""
    asked: list[tuple[str, Any]] = []
    engine = sqlite.reading_engine(path)

    def note(_connection: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
        asked.append((statement, values))

    event.listen(engine, "before_cursor_execute", note)
    ask(Reader(engine))
    engine.dispose()
    database = sqlite3.connect(path)
    explained = [
        (
            statement,
            [step for *_, step in database.execute(f"EXPLAIN QUERY PLAN {statement}", values)],
        )
        for statement, values in asked
        if statement.startswith("SELECT")
    ]
    database.close()
    return explained


def is_costly(step: str, statement: str) -> bool:
    """Return whether a step's cost grows with the containers that have ended.

    A scan of an index is a walk in its order, which `LIMIT` ends unless something sorts after it.
    The other sorts are of what is unfinished, or of one page.
    """
    if step.startswith("SCAN"):
        return "INDEX" not in step
    return "B-TREE" in step and "LIMIT" in statement
