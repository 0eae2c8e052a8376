"""Jobs in the store: what is listed, and what a restart finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from longshore.dispatcher.domain.containers import (
    Container,
    ContainerState,
    Dependency,
    DependencyOn,
)
from longshore.dispatcher.domain.jobs import Job, JobState, Tally
from longshore.dispatcher.domain.messages import SaveAttempt, SaveContainer, SaveJob
from longshore.dispatcher.domain.queries import ContainerFilter, JobFilter
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest
from tests.store_values import (
    SPEC,
    attempt,
    container,
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


# ---- listing -------------------------------------------------------------------------------------


def test_pages_cover_every_job_once_newest_first(store: Store) -> None:
    states = list(JobState)
    every = [
        job(
            n,
            SORT,
            ALIGN,
            state=states[n % 5],
            user=("ann", "bob")[n % 2],
            project=("apollo", "gemini", "mercury")[n % 3],
            name=f"n{n % 4}",
            tallies=(Tally(queued=1), Tally(running=n, failed=1)),
        )
        for n in range(1, 41)
    ]
    for each in every:
        insert_job(store, each, 10 * each.sequence)
    heads = [replace(each, tasks=(), tallies=(each.tally,)) for each in reversed(every)]
    some = (JobState.PENDING, JobState.FAILED, JobState.PENDING)
    filters: dict[JobFilter, Callable[[Job], bool]] = {
        JobFilter(): lambda _: True,
        JobFilter(states=some): lambda j: j.state in some,
        JobFilter(user="ann"): lambda j: j.user == "ann",
        JobFilter(user="nobody"): lambda _: False,
        JobFilter(project="gemini", user="bob"): lambda j: (
            j.project == "gemini" and j.user == "bob"
        ),
        JobFilter(name="n1", states=some): lambda j: j.name == "n1" and j.state in some,
    }
    for which, wanted in filters.items():
        for limit in (1, 3, 40, 1000):
            assert jobs_listed(store, which, limit) == [j for j in heads if wanted(j)], which


def jobs_listed(store: Store, which: JobFilter, limit: int) -> list[Job]:
    """Follow the cursors to the end."""
    found: list[Job] = []
    cursor: str | None = ""
    while cursor is not None:
        page = store.jobs(which, cursor=cursor, limit=limit)
        assert len(page.items) <= limit
        found += page.items
        cursor = page.next_cursor
    return found


@pytest.mark.parametrize(("cursor", "limit"), [("x", 1), ("YmVmb3JlIHg=", 1), ("", 0), ("", 1001)])
def test_a_strange_page_of_jobs_is_refused(store: Store, cursor: str, limit: int) -> None:
    with pytest.raises(InvalidRequest):
        store.jobs(JobFilter(), cursor=cursor, limit=limit)


def test_what_ends_is_listed_by_its_end_from_then_on(store: Store) -> None:
    """One call may save it on its way and at its end, and others that go on."""
    insert_job(store, job(1, SORT), 10)
    insert_job(store, job(2, SORT), 20)
    ways = ContainerState.QUEUED, ContainerState.RUNNING, ContainerState.FAILED
    going, ending = container(20, job_id="j-2", task="sort"), container(10)
    saved = [SaveContainer(container=replace(ending, state=way)) for way in ways]
    others = [SaveContainer(container=replace(going, state=way)) for way in ways[:2]]
    jobs = [SaveJob(job=job(1, SORT, state=JobState.FAILED)), SaveJob(job=job(2, SORT))]
    store.write([*saved, *others, *jobs], wait=True).result(30)

    def found(*states: ContainerState) -> list[int]:
        which = ContainerFilter(user="ann", project="apollo", states=states)
        return [each.sequence for each in store.containers(which, cursor="", limit=9).items]

    def jobs_of(*states: JobState) -> list[str]:
        which = JobFilter(user="ann", name="night", states=states)
        return [each.id for each in store.jobs(which, cursor="", limit=9).items]

    every = {state: found(state) for state in ContainerState}
    listed = {ContainerState.RUNNING: [20], ContainerState.FAILED: [10]}
    assert every == {state: listed.get(state, []) for state in ContainerState}
    assert found(ContainerState.QUEUED, ContainerState.RUNNING, ContainerState.LOCKED) == [20]
    assert found() == found(*ContainerState) == [20, 10]
    assert jobs_of(JobState.FAILED) == ["j-1"]
    assert jobs_of(JobState.PENDING) == jobs_of(JobState.PENDING, JobState.RUNNING) == ["j-2"]


def test_containers_are_listed_by_job_task_and_index(store: Store) -> None:
    every: list[Container] = []
    for sequence in (1, 2):
        every += insert_job(store, job(sequence, SORT, ALIGN), 10 * sequence)
    every.append(container(40))
    insert(store, every[-1])
    every[2] = replace(every[2], state=ContainerState.FAILED)
    tried = attempt(every[2])
    store.write([SaveContainer(container=every[2]), SaveAttempt(attempt=tried)]).result(30)
    every[2] = replace(every[2], attempts=(tried,))
    failed = (ContainerState.FAILED,)
    filters: dict[ContainerFilter, list[int]] = {
        ContainerFilter(job_id="j-1"): [13, 12, 11, 10],
        ContainerFilter(job_id="j-1", task="sort"): [10],
        ContainerFilter(job_id="j-2", task="align"): [23, 22, 21],
        ContainerFilter(job_id="j-1", task="align", array_index=0): [11],
        ContainerFilter(job_id="j-1", array_index=2): [13],
        ContainerFilter(job_id="j-1", states=failed): [12],
        ContainerFilter(job_id="j-2", states=failed): [],
        ContainerFilter(job_id="j-1", name="align"): [13, 12, 11],
        ContainerFilter(job_id="j-1", user="ann", project="apollo"): [13, 12, 11, 10],
        ContainerFilter(job_id="j-1", user="bob"): [],
        ContainerFilter(job_id="j-1", project="gemini"): [],
        ContainerFilter(job_id="j-x"): [],
        ContainerFilter(job_id="j-1", instance_id="i-1"): [12],
        ContainerFilter(job_id="j-1", instance_id="i-1", task="sort"): [],
        ContainerFilter(job_id="j-1", instance_id="i-1", task="align", array_index=1): [12],
        ContainerFilter(job_id="j-1", instance_id="i-1", array_index=0): [],
        ContainerFilter(job_id="j-2", instance_id="i-1"): [],
        ContainerFilter(): [40, 23, 22, 21, 20, 13, 12, 11, 10],
    }
    known = {each.sequence: each for each in every}
    for which, expected in filters.items():
        for limit in (1, 1000):
            found: list[Container] = []
            cursor: str | None = ""
            while cursor is not None:
                page = store.containers(which, cursor=cursor, limit=limit)
                found += page.items
                cursor = page.next_cursor
            assert found == [known[n] for n in expected], which


@pytest.mark.parametrize(
    "which", [ContainerFilter(task="a"), ContainerFilter(array_index=0, user="ann")]
)
def test_a_task_or_an_index_without_its_job_is_refused(
    store: Store, which: ContainerFilter
) -> None:
    with pytest.raises(InvalidRequest, match="must be given too"):
        store.containers(which, cursor="", limit=1)


# ---- after a restart -----------------------------------------------------------------------------


def test_recovery_finds_unfinished_jobs_and_counts_them_anew(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    new = job(1, task("a", len(ContainerState)))
    containers = insert_job(store, new, 1)
    insert_job(store, job(2, task("a", 2)), 11)
    for n, state in enumerate([state for state in JobState if state.final], 3):
        insert_job(store, job(n, SORT, state=state), 10 * n)
    codes = (None, None, None, 0, 3, 143)
    moved = [
        replace(each, state=state, exit_code=code)
        for each, state, code in zip(containers, ContainerState, codes, strict=True)
    ]
    store.write([SaveContainer(container=each) for each in moved]).result(30)
    store.close()
    store = Store.open(url_in(tmp_path))
    one_each = Tally(queued=1, locked=1, running=1, succeeded=1, failed=1, cancelled=1)
    assert store.recover().jobs == (
        replace(new, tallies=(one_each,), exit_code=3),
        job(2, task("a", 2)),
    )
    store.close()


def test_the_highest_exit_code_is_that_of_any_task(store: Store) -> None:
    new = job(1, task("b", 3), task("a"), task("c", 2))
    containers = insert_job(store, new, 1)
    codes = {0: 2, 1: None, 3: 9, 4: 4}
    store.write(
        [
            SaveContainer(
                container=replace(containers[n], state=ContainerState.FAILED, exit_code=code)
            )
            for n, code in codes.items()
        ]
    ).result(30)
    (found,) = store.recover().jobs
    assert found.exit_code == 9
    assert found.tallies == (
        Tally(queued=1, failed=2),
        Tally(failed=1),
        Tally(queued=1, failed=1),
    )
