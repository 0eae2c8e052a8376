"""Jobs in the store: what a change does, what it is refused with, and what is read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from longshore.dispatcher.domain.containers import (
    Container,
    ContainerState,
    Dependency,
    DependencyOn,
    Reason,
)
from longshore.dispatcher.domain.jobs import Job, JobState, Tally
from longshore.dispatcher.domain.messages import (
    InsertContainers,
    InsertJob,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
    SaveJob,
)
from longshore.dispatcher.domain.queries import ContainerFilter
from longshore.dispatcher.store.errors import (
    AlreadyFinal,
    IdempotencyConflict,
    IdempotentRepeat,
    NoSuchJob,
    StoreBusy,
)
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.writer import MAX_PENDING
from longshore.drivers.errors import BugError
from tests.store_values import (
    SPEC,
    attempt,
    container,
    containers_of,
    insert,
    insert_job,
    job,
    new_store,
    task,
    url_in,
)

OTHER_SPEC = replace(
    SPEC,
    name="align",
    after=(
        Dependency(of="j-9/sort", each=True),
        Dependency(of="c-1", on=DependencyOn.END),
    ),
    not_before=1.7e9,
    time_limit_s=60.5,
    grace_period_s=0.0,
)
SORT, ALIGN = task("sort"), task("align", 3, spec=OTHER_SPEC, max_running=2)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = new_store(tmp_path)
    yield opened
    opened.close()


def reopened(store: Store, directory: Path) -> Store:
    store.close()
    return Store.open(url_in(directory))


def read(store: Store, containers: tuple[Container, ...]) -> list[Container | None]:
    return [store.container(each.id) for each in containers]


# ---- inserting -----------------------------------------------------------------------------------


def test_a_job_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    new = job(7, SORT, ALIGN, priority=3, labels=(("a", "1"), ("b", "")), held=True)
    containers = insert_job(store, new, 1)
    store = reopened(store, tmp_path)
    assert store.job("j-7") == new
    assert store.job("j-8") is None
    assert read(store, containers) == list(containers)
    assert [c.array_index for c in containers] == [None, 0, 1, 2]
    store.close()


def test_a_job_whose_only_task_has_no_name_comes_back_as_it_was(store: Store) -> None:
    for sequence, only in ((1, task()), (2, task(size=2))):
        new = job(sequence, only)
        containers = insert_job(store, new, 10 * sequence)
        assert store.job(new.id) == new
        assert read(store, containers) == list(containers)


def test_the_elements_of_an_array_share_one_specification(store: Store) -> None:
    insert_job(store, job(1, SORT, ALIGN), 1)
    page = store.containers(ContainerFilter(job_id="j-1", task="align"), cursor="", limit=10)
    recovered = store.recover()
    for found in (page.items, recovered.containers):
        specs = {id(c.spec): c.spec for c in found if c.task == "align"}
        assert list(specs.values()) == [OTHER_SPEC]
    (known,) = recovered.jobs
    assert recovered.containers[-1].spec is known.tasks[1].spec


def test_a_job_is_inserted_whole_or_not_at_all(store: Store) -> None:
    insert(store, container(4))
    with pytest.raises(IntegrityError):
        insert_job(store, job(1, SORT, ALIGN), 1)
    assert store.job("j-1") is None
    assert store.container(container(1).id) is None
    insert_job(store, job(1, SORT, ALIGN), 11)
    with pytest.raises(IntegrityError):
        insert_job(store, job(1, SORT), 21)
    with pytest.raises(IntegrityError):
        insert_job(store, job(1, SORT, id="j-2"), 31)
    assert store.job("j-2") is None
    assert store.container(container(31).id) is None


MISFITS: dict[str, Callable[[Job, tuple[Container, ...]], tuple[Job, tuple[Container, ...]]]] = {
    "one too few": lambda new, of: (new, of[1:]),
    "one too many": lambda new, of: (new, (*of, replace(of[-1], id="c-x", sequence=99))),
    "of another task": lambda new, of: (new, (replace(of[0], task="x"), *of[1:])),
    "of another job": lambda new, of: (new, (replace(of[0], job_id="j-x"), *of[1:])),
    "of no job": lambda new, of: (new, (replace(of[0], job_id=""), *of[1:])),
    "another specification": lambda new, of: (new, (replace(of[0], spec=OTHER_SPEC), *of[1:])),
    "begun already": lambda new, of: (
        new,
        (replace(of[0], attempts=(attempt(of[0]),)), *of[1:]),
    ),
    "no tally of a task": lambda new, of: (replace(new, tallies=new.tallies[1:]), of),
}


@pytest.mark.parametrize("misfit", MISFITS)
def test_containers_that_do_not_fit_their_job_are_a_bug(store: Store, misfit: str) -> None:
    new = job(1, SORT, ALIGN)
    bad, containers = MISFITS[misfit](new, containers_of(new, 1))
    call = store.write([InsertJob(job=bad, containers=containers, user="ann")])
    assert isinstance(call.exception(30), BugError)
    assert store.job("j-1") is None
    insert_job(store, new, 1)


def test_a_container_of_a_job_does_not_come_alone(store: Store) -> None:
    lone = container(1, job_id="j-1")
    call = store.write([InsertContainers(containers=(lone,), user="ann")])
    assert isinstance(call.exception(30), BugError)


def test_a_repeated_key_gives_the_job_that_it_made(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    key = {"idempotency_key": "k", "fingerprint": "f"}
    insert_job(store, job(1, ALIGN), 1, **key)
    store = reopened(store, tmp_path)
    with pytest.raises(IdempotentRepeat) as repeated:
        insert_job(store, job(2, ALIGN), 11, **key)
    assert repeated.value.container_ids == ("j-1",)
    with pytest.raises(IdempotencyConflict):
        insert_job(store, job(2, ALIGN), 11, idempotency_key="k", fingerprint="other")
    assert store.job("j-2") is None
    with pytest.raises(IdempotencyConflict):
        insert(store, container(11), **key)
    insert_job(store, job(2, ALIGN, user="bob"), 11, **key)
    with pytest.raises(IntegrityError):
        insert_job(store, job(1, ALIGN), 21, idempotency_key="free", fingerprint="f")
    insert_job(store, job(3, ALIGN), 21, idempotency_key="free", fingerprint="f")
    store.close()


def test_a_job_larger_than_what_may_wait_is_taken_and_read_as_one(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    size = MAX_PENDING + 1
    new = job(1, task("a", size))
    change = InsertJob(job=new, containers=containers_of(new, 1), user="ann")
    # Until it is written, others are told to come again.
    call = store.write([change])
    priority = RequestJobPriority(job_id="j-1", priority=9)
    with pytest.raises(StoreBusy):
        store.write([priority])
    call.result(300)
    store.write([priority]).result(30)
    store = reopened(store, tmp_path)
    found = store.recover()
    assert len(found.containers) == size
    assert {(c.priority, id(c.spec)) for c in found.containers} == {
        (9, id(found.jobs[0].tasks[0].spec))
    }
    assert found.jobs[0].tallies == (Tally(queued=size),)
    store.close()


# ---- requests ------------------------------------------------------------------------------------


def mixed_job(store: Store) -> tuple[Container, ...]:
    """Insert a job with one container in each state, beside another job and a single container."""
    new = job(1, task("a", len(ContainerState)))
    made = containers_of(new, 1)
    containers = tuple(
        replace(each, state=state) for each, state in zip(made, ContainerState, strict=True)
    )
    store.write([InsertJob(job=new, containers=containers, user="ann")]).result(30)
    insert_job(store, job(2, task("a", 2)), 11)
    insert(store, container(21))
    return containers


def test_cancelling_a_job_cancels_all_of_it_that_has_not_ended(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    containers = mixed_job(store)
    store.write([RequestJobCancel(job_id="j-1")]).result(30)
    store = reopened(store, tmp_path)
    assert read(store, containers) == [
        replace(each, cancel_requested=not each.state.final) for each in containers
    ]
    cancelled = [store.job(name) for name in ("j-1", "j-2")]
    assert [each is not None and each.cancel_requested for each in cancelled] == [True, False]
    others = [store.container(container(n).id) for n in (11, 12, 21)]
    assert [each is not None and each.cancel_requested for each in others] == [False] * 3
    store.close()


def test_a_jobs_priority_is_that_of_all_of_it_that_has_not_ended(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    containers = mixed_job(store)
    store.write([RequestJobPriority(job_id="j-1", priority=7)]).result(30)
    store = reopened(store, tmp_path)
    assert read(store, containers) == [
        each if each.state.final else replace(each, priority=7) for each in containers
    ]
    asked = [store.job(name) for name in ("j-1", "j-2")]
    assert [each and each.priority for each in asked] == [7, 500]
    others = [store.container(container(n).id) for n in (11, 12, 21)]
    assert [each and each.priority for each in others] == [500] * 3
    store.close()


def test_a_job_is_held_and_let_go(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    new = job(1, SORT)
    containers = insert_job(store, new, 1)
    insert_job(store, job(2, SORT), 11)
    for held in (True, False):
        store.write([RequestJobHold(job_id="j-1", held=held)]).result(30)
        store = reopened(store, tmp_path)
        assert store.job("j-1") == replace(new, held=held)
        assert store.job("j-2") == job(2, SORT)
        assert read(store, containers) == list(containers)
    store.close()


REQUESTS: list[Callable[[str], RequestJobCancel | RequestJobPriority | RequestJobHold]] = [
    lambda job_id: RequestJobCancel(job_id=job_id),
    lambda job_id: RequestJobPriority(job_id=job_id, priority=1),
    lambda job_id: RequestJobHold(job_id=job_id, held=True),
]


@pytest.mark.parametrize("state", [state for state in JobState if state.final])
@pytest.mark.parametrize("request_for", REQUESTS)
def test_an_ended_job_takes_no_request(
    store: Store, state: JobState, request_for: Callable[[str], Any]
) -> None:
    ended = job(1, SORT, state=state)
    containers = insert_job(store, ended, 1)
    error = store.write([request_for("j-1")]).exception(30)
    assert isinstance(error, AlreadyFinal)
    been = "been " if state is JobState.CANCELLED else ""
    assert (error.state, str(error)) == (state, f"job j-1 has {been}{state.value} already")
    assert store.job("j-1") == ended
    assert read(store, containers) == list(containers)
    unknown = store.write([request_for("j-x")]).exception(30)
    assert isinstance(unknown, NoSuchJob)
    assert str(unknown) == "there is no job j-x"


# ---- saving --------------------------------------------------------------------------------------


def test_the_engine_saves_its_own_columns_of_a_job_only(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    new = job(1, SORT, ALIGN)
    insert_job(store, new, 1)
    insert_job(store, job(2, SORT), 11)
    store.write([request("j-1") for request in REQUESTS]).result(30)
    running = replace(new, state=JobState.RUNNING, started_at=5.5)
    done = replace(
        running,
        state=JobState.FAILED,
        finished_at=7.5,
        exit_code=3,
        reason=Reason(code="failed", message="align[1] ended with 3"),
        tallies=(Tally(succeeded=1), Tally(failed=1, cancelled=2)),
    )
    store.write([SaveJob(job=running), SaveJob(job=done)]).result(30)
    store = reopened(store, tmp_path)
    assert store.job("j-1") == replace(done, priority=1, cancel_requested=True, held=True)
    assert store.job("j-2") == job(2, SORT)
    store.close()


def test_saving_a_job_that_is_not_there_is_an_error(store: Store) -> None:
    insert_job(store, job(1, SORT), 1)
    late = replace(job(1, SORT), state=JobState.RUNNING)
    call = store.write([SaveJob(job=late), SaveJob(job=job(2, SORT))])
    assert isinstance(call.exception(30), NoSuchJob)
    assert store.job("j-1") == job(1, SORT)


def test_job_sequences_are_their_own_and_go_on_after_a_restart(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    assert [store.next_job_sequence() for _ in range(3)] == [1, 2, 3]
    insert_job(store, job(3, SORT, state=JobState.CANCELLED), 41)
    store = reopened(store, tmp_path)
    assert store.next_job_sequence() == 4
    assert list(store.next_sequences(2)) == [42, 43]
    store.close()
