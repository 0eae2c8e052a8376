"""What the store knows of the things that containers wait for, at submission and at a start."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from longshore.dispatcher.domain.containers import (
    Container,
    ContainerState,
    Dependency,
    DependencyOn,
)
from longshore.dispatcher.domain.jobs import (
    ElasticTerms,
    Job,
    JobState,
    JobTask,
    JobType,
    JobTypeSpec,
    PerInstanceTerms,
    Schedule,
    Tally,
)
from longshore.dispatcher.domain.messages import AddContainer, InsertJob, SaveContainer, SaveJob
from longshore.dispatcher.domain.queries import Awaited
from longshore.dispatcher.store import sqlite
from longshore.dispatcher.store.reader import Reader
from longshore.dispatcher.store.store import Store
from tests.store_values import (
    SPEC,
    container,
    containers_of,
    insert,
    insert_job,
    job,
    new_store,
    task,
    url_in,
)

QUEUED, RUNNING = ContainerState.QUEUED, ContainerState.RUNNING
SUCCEEDED, FAILED = ContainerState.SUCCEEDED, ContainerState.FAILED
CANCELLED = ContainerState.CANCELLED


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = new_store(tmp_path)
    yield opened
    opened.close()


def move(store: Store, containers: tuple[Container, ...], *states: ContainerState) -> None:
    """Let containers be in these states."""
    moved = [replace(c, state=state) for c, state in zip(containers, states, strict=True)]
    store.write([SaveContainer(container=each) for each in moved]).result(30)


def known(of: str, size: int | None = None, ended: dict[str, bool] | None = None) -> Awaited:
    """Return an answer about what is of the usual project."""
    return Awaited(of=of, project="apollo", size=size, ended=ended or {})


def asked(store: Store, of: str, *, each: bool = False) -> Awaited | None:
    """Return the answer for one thing."""
    found = store.dependency_status([Dependency(of=of, each=each)])
    assert found.keys() <= {of}
    return found.get(of)


@pytest.mark.parametrize(
    ("state", "ended"),
    [
        (QUEUED, {}),
        (ContainerState.LOCKED, {}),
        (RUNNING, {}),
        (SUCCEEDED, {"c-00000001": True}),
        (FAILED, {"c-00000001": False}),
        (CANCELLED, {"c-00000001": False}),
    ],
)
def test_a_container(store: Store, state: ContainerState, ended: dict[str, bool]) -> None:
    insert(store, container(1, state=state, project="gemini"))
    for each in (False, True):
        assert asked(store, "c-00000001", each=each) == Awaited(
            of="c-00000001", project="gemini", size=None, ended=ended
        )


def test_what_there_is_not_has_no_answer(store: Store) -> None:
    insert(store, container(1))
    insert_job(store, job(1, task("a"), task("b", 2)), 11)
    insert_job(store, job(2, task()), 21)
    absent = ["c-2", "c-", "", "j-3", "j-3/a", "j-1/c", "j-1/", "j-1/b[0]", "j-1/a/", "j-2/a", "/a"]
    for of in absent:
        for each in (False, True):
            assert asked(store, of, each=each) is None, of
    assert store.dependency_status([]) == {}


# A job of the tasks a (2 elements) and b (1 container), with the states of their containers.
STATES: list[tuple[list[ContainerState], dict[str, bool]]] = [
    ([QUEUED, QUEUED, QUEUED], {}),
    ([SUCCEEDED, RUNNING, QUEUED], {"j-1/a[0]": True}),
    ([RUNNING, FAILED, QUEUED], {"j-1/a[1]": False}),
    ([SUCCEEDED, SUCCEEDED, QUEUED], {"j-1/a[0]": True, "j-1/a[1]": True, "j-1/a": True}),
    ([SUCCEEDED, CANCELLED, QUEUED], {"j-1/a[0]": True, "j-1/a[1]": False, "j-1/a": False}),
    ([QUEUED, QUEUED, SUCCEEDED], {"j-1/b": True}),
    (
        [SUCCEEDED, SUCCEEDED, SUCCEEDED],
        {"j-1/a[0]": True, "j-1/a[1]": True, "j-1/a": True, "j-1/b": True, "j-1": True},
    ),
    (
        [SUCCEEDED, SUCCEEDED, FAILED],
        {"j-1/a[0]": True, "j-1/a[1]": True, "j-1/a": True, "j-1/b": False, "j-1": False},
    ),
]


@pytest.mark.parametrize(("states", "ended"), STATES)
@pytest.mark.parametrize("saved", [False, True])
def test_a_job_and_its_tasks(
    store: Store, states: list[ContainerState], ended: dict[str, bool], saved: bool
) -> None:
    """The same whether the engine came to save that the job has ended, or did not."""
    new = job(1, task("a", 2), task("b"), project="gemini")
    move(store, insert_job(store, new, 1), *states)
    insert_job(store, job(2, task("a", 2, spec=SPEC)), 11)
    if saved and "j-1" in ended:
        tallies = (
            Tally().moved(None, states[0]).moved(None, states[1]),
            Tally().moved(None, states[2]),
        )
        state = JobState.SUCCEEDED if ended["j-1"] else JobState.FAILED
        store.write([SaveJob(job=replace(new, state=state, tallies=tallies))]).result(30)
    plain = {
        of: Awaited(
            of=of,
            project="gemini",
            size={"j-1/a": 2}.get(of),
            ended={of: ended[of]} if of in ended else {},
        )
        for of in ("j-1", "j-1/a", "j-1/b")
    }
    assert store.dependency_status([Dependency(of=of) for of in plain]) == plain
    elements = {node: how for node, how in ended.items() if "[" in node}
    by_element = replace(plain["j-1/a"], ended={**plain["j-1/a"].ended, **elements})
    # Element by element for one that waits is so for all: they are told too much.
    both = [Dependency(of="j-1/a", each=True), Dependency(of="j-1/a", on=DependencyOn.END)]
    for wanted in (both, both[::-1], both[:1]):
        assert store.dependency_status(wanted) == {"j-1/a": by_element}
    for of in ("j-1", "j-1/b"):
        assert asked(store, of, each=True) == plain[of]


def test_a_whole_job_is_an_array_if_its_only_task_is_and_has_no_name(store: Store) -> None:
    tasks: dict[str, tuple[list[JobTask], int | None]] = {
        "j-1": ([task("", 3)], 3),
        "j-2": ([task("", 1, is_array=True)], 1),
        "j-3": ([task()], None),
        "j-4": ([task("a", 3)], None),
        "j-5": ([task("a", 3), task("b", 3)], None),
    }
    for sequence, (of, (parts, size)) in enumerate(tasks.items(), 1):
        insert_job(store, job(sequence, *parts), 10 * sequence)
        assert asked(store, of) == known(of, size)
        assert asked(store, of, each=True) == known(of, size)
    move(store, (container(11),), FAILED)
    assert asked(store, "j-1", each=True) == known("j-1", 3, {"j-1/[1]": False})
    move(store, (container(10), container(12)), SUCCEEDED, SUCCEEDED)
    assert asked(store, "j-1", each=True) == known(
        "j-1", 3, {"j-1": False, "j-1/[0]": True, "j-1/[1]": False, "j-1/[2]": True}
    )
    assert asked(store, "j-1") == known("j-1", 3, {"j-1": False})


def test_more_things_than_one_statement_can_name(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    insert(store, container(1, state=SUCCEEDED))
    insert_job(store, job(1, task()), 11)
    store.close()
    engine = sqlite.reading_engine(tmp_path / "longshore.db")

    def limit(connection: sqlite3.Connection, _record: object) -> None:
        # Whoever builds SQLite may raise it, as some distributions do.
        connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 32_766)

    event.listen(engine, "connect", limit)
    nobody = [Dependency(of=f"{kind}-x{n}") for kind in "cj" for n in range(33_000)]
    wanted = [Dependency(of="c-00000001"), *nobody, Dependency(of="j-1")]
    assert Reader(engine).dependency_status(wanted) == {
        "c-00000001": known("c-00000001", ended={"c-00000001": True}),
        "j-1": known("j-1"),
    }
    engine.dispose()


# ---- after a restart -----------------------------------------------------------------------------


def after(*of: str, each: bool = False) -> tuple[Dependency, ...]:
    return tuple(Dependency(of=name, each=each) for name in of)


def test_recovery_tells_what_has_ended_of_what_is_waited_for(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    insert(
        store,
        container(1, state=SUCCEEDED),
        container(2, state=FAILED),
        container(3, state=RUNNING),
        container(4, state=SUCCEEDED),
        container(5, state=SUCCEEDED),
        container(6, state=SUCCEEDED, spec=replace(SPEC, after=after("c-00000005"))),
        container(7, spec=replace(SPEC, after=after("c-00000001", "c-00000003", "c-gone"))),
        container(8, spec=replace(SPEC, after=after("j-1", "j-2", "c-00000002"))),
    )
    move(store, insert_job(store, job(1, task("", 2)), 11), SUCCEEDED, SUCCEEDED)
    ended = job(2, task("a"), task("b"), state=JobState.FAILED)
    saved = replace(ended, tallies=(Tally(succeeded=1), Tally(failed=1)))
    move(store, insert_job(store, saved, 21), SUCCEEDED, FAILED)
    store.close()
    store = Store.open(url_in(tmp_path))
    assert store.recover().ended == {
        "c-00000001": True,
        "c-00000002": False,
        "j-1": True,
        "j-2": False,
    }
    store.close()


def test_recovery_tells_what_has_ended_within_an_unfinished_job(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    split, sort = task("split"), task("sort", 3, spec=replace(SPEC, after=after("j-1/split")))
    each = task("align", 3, spec=replace(SPEC, after=after("j-1/sort", each=True)))
    last = task("last", spec=replace(SPEC, after=after("j-1/sort", "j-1/align", "j-1/idle")))
    idle = task("idle", 2)
    containers = insert_job(store, job(1, split, sort, each, last, idle), 1)
    states = [SUCCEEDED, SUCCEEDED, FAILED, RUNNING, SUCCEEDED, CANCELLED, *[QUEUED] * 4]
    move(store, containers, *states)
    store.close()
    store = Store.open(url_in(tmp_path))
    # Of "align" and "idle" none waits for the elements; "sort" and "last" have not ended.
    assert store.recover().ended == {
        "j-1/split": True,
        "j-1/sort[0]": True,
        "j-1/sort[1]": False,
    }
    move(store, containers[3:4], SUCCEEDED)
    move(store, containers[8:], FAILED, SUCCEEDED)
    # And nobody waits for "split" any more.
    assert store.recover().ended == {
        "j-1/sort[0]": True,
        "j-1/sort[1]": False,
        "j-1/sort[2]": True,
        "j-1/sort": False,
        "j-1/idle": False,
    }
    store.close()


def test_recovery_knows_the_elements_of_a_job_that_has_ended(store: Store) -> None:
    ended = job(1, task("", 2), state=JobState.FAILED, tallies=(Tally(succeeded=1, failed=1),))
    move(store, insert_job(store, ended, 1), SUCCEEDED, FAILED)
    spec = replace(SPEC, after=after("j-1", each=True))
    insert_job(store, job(2, task("", 2, spec=spec)), 11)
    assert store.recover().ended == {"j-1": False, "j-1/[0]": True, "j-1/[1]": False}


# ---- jobs that do not end with their containers --------------------------------------------------

ONE_EACH = PerInstanceTerms()
PERIODIC = JobTypeSpec(schedule=Schedule(cron=("@daily",)))
LASTING: dict[str, Job] = {
    "system": job(1, task(size=0), type=JobType.SYSTEM, terms=JobTypeSpec(per_instance=ONE_EACH)),
    "sysbatch": job(
        1, task(size=0), type=JobType.SYSBATCH, terms=JobTypeSpec(per_instance=ONE_EACH)
    ),
    "elastic": job(1, task(), type=JobType.ELASTIC, terms=JobTypeSpec(elastic=ElasticTerms())),
    "periodic": job(1, task(), terms=PERIODIC, tallies=(Tally(),)),
}


@pytest.mark.parametrize("type_", LASTING)
@pytest.mark.parametrize("state", JobState)
def test_a_job_that_does_not_end_with_its_containers(
    store: Store, type_: str, state: JobState
) -> None:
    new = LASTING[type_]
    containers = () if new.is_template else containers_of(new, 1)
    store.write([InsertJob(job=new, containers=containers, user="ann")]).result(30)
    if new.type.is_per_instance:
        containers = (container(1, job_id="j-1", pinned_to="i-1"),)
        store.write([AddContainer(container=containers[0])]).result(30)
    # All that it has by now has succeeded: that alone says nothing.
    move(store, containers, *(SUCCEEDED for _ in containers))
    saved = replace(new, state=state, tallies=(Tally(succeeded=len(containers)),))
    store.write([SaveJob(job=saved)]).result(30)
    for of in ("j-1", "j-1/"):
        ended = {of: state is JobState.SUCCEEDED} if state.final else {}
        assert asked(store, of) == known(of, ended=ended)
    waiting = replace(SPEC, after=(Dependency(of="j-1"),))
    insert(store, container(9, spec=waiting))
    assert store.recover().ended == ({"j-1": state is JobState.SUCCEEDED} if state.final else {})


def test_a_job_that_has_no_container_yet_has_not_ended(store: Store) -> None:
    insert_job(store, LASTING["system"], 1)
    assert asked(store, "j-1") == known("j-1")
    assert asked(store, "j-1/") == known("j-1/")
