"""Jobs on every instance in the store: their revisions, their containers, and what has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from longshore.dispatcher.domain.containers import AttemptOutcome, Container, ContainerState, Reason
from longshore.dispatcher.domain.jobs import (
    Job,
    JobState,
    JobType,
    JobTypeSpec,
    PerInstanceTerms,
    Tally,
)
from longshore.dispatcher.domain.messages import (
    AddContainer,
    Change,
    RequestJobCancel,
    RequestJobHold,
    RequestJobPriority,
    RequestJobRevision,
    SaveAttempt,
    SaveContainer,
    SaveInstance,
    SaveJob,
    SaveSpec,
)
from longshore.dispatcher.domain.queries import ContainerFilter
from longshore.dispatcher.store.errors import (
    AlreadyFinal,
    NoSuchContainer,
    NoSuchJob,
    OutOfOrder,
    RevisionConflict,
)
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import BugError
from tests.store_values import (
    SPEC,
    attempt,
    container,
    insert_job,
    instance,
    job,
    new_store,
    task,
    url_in,
)

NEXT_SPEC = replace(SPEC, name="newer", command=("true",))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = new_store(tmp_path)
    yield opened
    opened.close()


def on_each(sequence: int = 1, **changes: Any) -> Job:
    """Return a new job that has a container on every matching instance."""
    values: dict[str, Any] = {
        "type": JobType.SYSTEM,
        "terms": JobTypeSpec(per_instance=PerInstanceTerms()),
    }
    return job(sequence, task(size=0), **{**values, **changes})


def revised(old: Job, **changes: Any) -> Job:
    """Return the next revision of a job."""
    terms = old.terms.per_instance
    assert terms is not None
    later = replace(terms, revision=terms.revision + 1, revised_at=terms.revised_at + 60.5)
    return replace(old, **{"terms": JobTypeSpec(per_instance=later), **changes})


def pinned(of: Job, sequence: int, where: str = "i-1", **changes: Any) -> Container:
    values = {
        "job_id": of.id,
        "pinned_to": where,
        "spec": of.tasks[0].spec,
        "priority": of.priority,
    }
    return container(sequence, **{**values, **changes})


def write(store: Store, *changes: Change) -> None:
    """Write as the engine does; raises what it is refused with."""
    store.write(changes, wait=True).result(30)


def ask(store: Store, change: Change) -> None:
    """Write as the API does; raises what it is refused with."""
    store.write([change]).result(30)


# ---- revisions -----------------------------------------------------------------------------------


def test_a_revision_replaces_what_its_user_names_and_nothing_else(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    first, other = on_each(1, labels=(("a", "1"),)), on_each(2)
    for each in (first, other):
        insert_job(store, each, 1)
    running = replace(first, state=JobState.RUNNING, started_at=5.5, tallies=(Tally(running=1),))
    write(store, SaveJob(job=running))
    ask(store, RequestJobHold(job_id="j-1", held=True))
    second = revised(
        first,
        name="day",
        labels=(("b", ""),),
        priority=7,
        tasks=(task(size=0, spec=NEXT_SPEC),),
    )
    # What is the engine's, or cannot change, is not taken from it.
    strange = replace(
        second, user="bob", project="gemini", created_at=9.0, parent="j-9", launched_for=1.0
    )
    ask(store, RequestJobRevision(job=strange))
    store.close()
    store = Store.open(url_in(tmp_path))
    assert store.job("j-1") == replace(
        second, held=True, state=JobState.RUNNING, started_at=5.5, tallies=(Tally(running=1),)
    )
    assert store.job("j-2") == other
    third = revised(second)
    ask(store, RequestJobRevision(job=third))
    found = store.job("j-1")
    assert found is not None
    assert found.terms == third.terms
    store.close()


def test_a_revisions_priority_is_that_of_all_that_has_not_ended(store: Store) -> None:
    first, other = on_each(1), on_each(2)
    insert_job(store, first, 1)
    insert_job(store, other, 1)
    going = pinned(first, 1)
    done = pinned(first, 2, state=ContainerState.SUCCEEDED)
    others = pinned(other, 3)
    write(store, *(AddContainer(container=each) for each in (going, done, others)))
    ask(store, RequestJobRevision(job=revised(first, priority=900)))
    assert [store.container(each.id) for each in (going, done, others)] == [
        replace(going, priority=900),
        done,
        others,
    ]


CONFLICTS: dict[str, tuple[Callable[[Job], Job], str]] = {
    "the same revision again": (
        lambda old: old,
        "job j-1 is at revision 2, so that revision 2 cannot follow",
    ),
    "an older one": (
        lambda old: replace(old, terms=JobTypeSpec(per_instance=PerInstanceTerms(revision=1))),
        "so that revision 1 cannot follow: somebody else was first",
    ),
    "one too late": (lambda old: revised(revised(old)), "so that revision 4 cannot follow"),
    "another type": (
        lambda old: revised(old, type=JobType.SYSBATCH),
        "job j-1 is of type system, and cannot become one of type sysbatch",
    ),
    "another type without revisions": (
        lambda old: replace(old, type=JobType.BATCH, terms=JobTypeSpec()),
        "cannot become one of type batch",
    ),
    "another task": (
        lambda old: revised(old, tasks=(task("other", 0),)),
        "their names cannot change",
    ),
    "one task more": (
        lambda old: revised(old, tasks=(*old.tasks, task("other", 0))),
        "their names cannot change",
    ),
}


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_what_is_not_the_next_revision_is_refused(store: Store, conflict: str) -> None:
    first = on_each()
    insert_job(store, first, 1)
    second = revised(first)
    ask(store, RequestJobRevision(job=second))
    change, message = CONFLICTS[conflict]
    bad = replace(change(second), name="bad", priority=1)
    with pytest.raises(RevisionConflict, match=message):
        ask(store, RequestJobRevision(job=bad))
    assert store.job("j-1") == second


def test_of_two_that_revise_the_same_the_first_wins(store: Store) -> None:
    first = on_each()
    insert_job(store, first, 1)
    calls = [
        store.write([RequestJobRevision(job=revised(first, name=name))]) for name in ("a", "b")
    ]
    assert calls[0].exception(30) is None
    assert isinstance(calls[1].exception(30), RevisionConflict)
    found = store.job("j-1")
    assert found is not None
    assert found.name == "a"


@pytest.mark.parametrize("state", [state for state in JobState if state.final])
def test_a_job_that_has_ended_is_not_revised(store: Store, state: JobState) -> None:
    ended = on_each(state=state)
    insert_job(store, ended, 1)
    with pytest.raises(AlreadyFinal, match=f"job j-1 has (been )?{state.value} already"):
        ask(store, RequestJobRevision(job=revised(ended)))
    with pytest.raises(AlreadyFinal):
        ask(store, RequestJobRevision(job=ended))
    assert store.job("j-1") == ended
    with pytest.raises(NoSuchJob):
        ask(store, RequestJobRevision(job=revised(on_each(2))))


def test_a_job_of_a_type_without_revisions_is_not_revised(store: Store) -> None:
    plain = job(1, task())
    insert_job(store, plain, 1)
    with pytest.raises(BugError):
        ask(store, RequestJobRevision(job=replace(plain, name="bad")))
    assert store.job("j-1") == plain


# ---- containers that the engine makes ------------------------------------------------------------


def test_a_container_for_an_instance_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    first = on_each()
    insert_job(store, first, 1)
    places = [pinned(first, n, f"i-{n}") for n in (1, 2)]
    locked = [replace(each, state=ContainerState.LOCKED) for each in places]
    tried = [attempt(each, revision=1, instance_id=each.pinned_to) for each in places]
    # As the engine writes them: each with its first attempt, and savings between them.
    write(
        store,
        AddContainer(container=places[0]),
        SaveContainer(container=locked[0]),
        SaveAttempt(attempt=tried[0]),
        AddContainer(container=places[1]),
        SaveContainer(container=locked[1]),
        SaveAttempt(attempt=tried[1]),
    )
    store.close()
    store = Store.open(url_in(tmp_path))
    expected = [replace(each, attempts=(one,)) for each, one in zip(locked, tried, strict=True)]
    assert [store.container(each.id) for each in places] == expected
    recovered = store.recover()
    assert recovered.containers == tuple(expected)
    assert recovered.jobs == (replace(first, tallies=(Tally(locked=2),)),)
    page = store.containers(ContainerFilter(job_id="j-1"), cursor="", limit=10)
    assert page.items == tuple(reversed(expected))
    assert list(store.next_sequences(1)) == [3]
    store.close()


def test_a_container_keeps_its_specification_when_its_job_gets_another(store: Store) -> None:
    first = on_each()
    insert_job(store, first, 1)
    places = [pinned(first, n, f"i-{n}") for n in (1, 2, 3)]
    write(store, *(AddContainer(container=each) for each in places))
    ask(store, RequestJobRevision(job=revised(first, tasks=(task(size=0, spec=NEXT_SPEC),))))
    assert [store.container(each.id) for each in places] == places
    updated = replace(places[1], spec=NEXT_SPEC)
    write(store, SaveSpec(container=updated))
    found = store.recover().containers
    assert found == (places[0], updated, places[2])
    # Those that are equal are one in memory.
    assert found[0].spec is found[2].spec
    named = store.containers(ContainerFilter(name="newer"), cursor="", limit=10)
    assert named.items == (updated,)


def test_a_specification_is_saved_and_nothing_else(store: Store) -> None:
    first = on_each()
    insert_job(store, first, 1)
    place, other = pinned(first, 1), pinned(first, 2, "i-2")
    write(store, AddContainer(container=place), AddContainer(container=other))
    strange = replace(place, spec=NEXT_SPEC, state=ContainerState.FAILED, priority=1, exit_code=3)
    write(store, SaveSpec(container=strange))
    assert store.container(place.id) == replace(place, spec=NEXT_SPEC)
    assert store.container(other.id) == other


def test_what_the_engine_had_not_heard_of_holds_for_what_it_adds(store: Store) -> None:
    first, other = on_each(1), on_each(2)
    insert_job(store, first, 1)
    insert_job(store, other, 1)
    ask(store, RequestJobPriority(job_id="j-1", priority=3))
    ask(store, RequestJobCancel(job_id="j-1"))
    added, others = pinned(first, 1), pinned(other, 2)
    write(store, AddContainer(container=added), AddContainer(container=others))
    assert store.container(added.id) == replace(added, priority=3, cancel_requested=True)
    assert store.container(others.id) == others


def test_a_container_of_no_job_or_for_no_instance_is_not_added(store: Store) -> None:
    first = on_each()
    insert_job(store, first, 1)
    for bad in (
        pinned(first, 1, ""),
        pinned(first, 1, job_id=""),
        replace(pinned(first, 1), attempts=(attempt(pinned(first, 1)),)),
    ):
        with pytest.raises(BugError):
            ask(store, AddContainer(container=bad))
    with pytest.raises(NoSuchJob):
        ask(store, AddContainer(container=pinned(on_each(2), 1)))
    assert store.container(container(1).id) is None
    ask(store, AddContainer(container=pinned(first, 1)))
    with pytest.raises(IntegrityError):
        ask(store, AddContainer(container=pinned(first, 1)))


def test_a_specification_of_what_is_not_for_one_instance_is_not_saved(store: Store) -> None:
    plain = job(1, task())
    (only,) = insert_job(store, plain, 1)
    with pytest.raises(BugError):
        ask(store, SaveSpec(container=replace(only, spec=NEXT_SPEC)))
    with pytest.raises(NoSuchContainer):
        ask(store, SaveSpec(container=pinned(on_each(2), 2)))
    assert store.container(only.id) == only


def test_what_builds_on_a_container_that_was_refused_is_not_written(store: Store) -> None:
    insert_job(store, on_each(), 1)
    absent = pinned(on_each(2), 1)
    added = store.write([AddContainer(container=absent)], wait=True)
    saved = store.write([AddContainer(container=pinned(on_each(), 2))], wait=True)
    assert isinstance(added.exception(30), NoSuchJob)
    assert isinstance(saved.exception(30), OutOfOrder)


# ---- after a restart -----------------------------------------------------------------------------


def test_a_job_without_any_container_is_found_after_a_restart(store: Store) -> None:
    first = on_each()
    insert_job(store, first, 1)
    assert store.recover().jobs == (first,)


def test_recovery_finds_where_unfinished_sysbatch_jobs_have_run(store: Store) -> None:
    once = on_each(1, type=JobType.SYSBATCH)
    again = on_each(2, type=JobType.SYSBATCH, state=JobState.RUNNING)
    over = on_each(3, type=JobType.SYSBATCH, state=JobState.CANCELLED)
    for_ever = on_each(4)
    for each in (once, again, over, for_ever):
        insert_job(store, each, 1)
    batch = job(5, task())
    insert_job(store, batch, 90)
    ended = {"state": ContainerState.SUCCEEDED, "finished_at": 5.0}
    places = [
        pinned(once, 1, "i-1", **ended),
        # Two revisions ended there, and a third runs.
        pinned(once, 2, "i-2", **ended),
        pinned(once, 3, "i-2", **{**ended, "state": ContainerState.FAILED, "exit_code": 4}),
        pinned(once, 4, "i-2", state=ContainerState.RUNNING),
        pinned(once, 5, "i-3", state=ContainerState.RUNNING),
        pinned(once, 6, "i-gone", **ended),
        pinned(once, 7, "i-unknown", **ended),
        pinned(again, 8, "i-1", **{**ended, "state": ContainerState.CANCELLED}),
        pinned(over, 9, "i-1", **ended),
        pinned(for_ever, 10, "i-1", **ended),
    ]
    outcome = AttemptOutcome.FAILED
    tried = (
        attempt(places[2], 1, outcome=outcome, revision=1, log_complete=True),
        attempt(places[2], 2, outcome=outcome, revision=1, log_complete=True),
    )
    instances = [instance(f"i-{name}") for name in (1, 2, 3)]
    instances.append(instance("i-gone", gone_at=5.0))
    write(
        store,
        *(AddContainer(container=each) for each in places),
        *(SaveAttempt(attempt=each) for each in tried),
        *(SaveInstance(instance=each) for each in instances),
    )
    found = store.recover()
    assert found.past == (places[0], replace(places[2], attempts=tried), places[7])
    assert {each.id for each in found.containers if each.pinned_to} == {places[3].id, places[4].id}


def test_the_end_of_a_per_instance_job_is_saved(store: Store) -> None:
    first = on_each(1, type=JobType.SYSBATCH)
    insert_job(store, first, 1)
    done = replace(
        first,
        state=JobState.CANCELLED,
        finished_at=7.5,
        reason=Reason(code="cancelled", message="cancelled"),
        tallies=(Tally(succeeded=2, cancelled=1),),
    )
    write(store, SaveJob(job=done))
    assert store.job("j-1") == done
    assert store.recover().jobs == ()
