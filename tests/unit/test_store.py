"""The store: what a change does, what it is refused with, and what is read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from longshore.dispatcher.domain.containers import AttemptOutcome, Container, ContainerState, Reason
from longshore.dispatcher.domain.messages import (
    Change,
    DeleteLaunch,
    InsertContainers,
    RequestCancel,
    RequestPriority,
    SaveAttempt,
    SaveContainer,
    SaveInstance,
    SaveLaunch,
)
from longshore.dispatcher.domain.queries import LISTED_ATTEMPTS, ContainerFilter
from longshore.dispatcher.store.errors import (
    AlreadyFinal,
    IdempotencyConflict,
    IdempotentRepeat,
    NoSuchContainer,
    StoreClosed,
)
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import BugError, InvalidRequest
from longshore.drivers.interface import Resources
from longshore.pool.model import Launch
from tests.store_values import SPEC, attempt, container, insert, instance, url_in

DAY_S = 24 * 3600.0
EVERYTHING = ContainerFilter()


class Clock:
    """A wall clock that a test moves."""

    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    opened = Store.open(url_in(tmp_path), wall_clock=clock)
    yield opened
    opened.close()


def test_a_container_comes_back_as_it_was(store: Store) -> None:
    first = container(1, priority=7, cost_usd=Decimal("1.10"))
    insert(store, first)
    assert store.container(first.id) == first
    assert store.container("c-other") is None


def test_an_insert_is_all_or_nothing(store: Store) -> None:
    insert(store, container(1))
    with pytest.raises(IntegrityError):
        insert(store, container(2), container(1))
    assert store.container(container(2).id) is None


def test_one_call_that_is_refused_takes_no_other_with_it(store: Store) -> None:
    insert(store, container(1))
    calls = [
        store.write([InsertContainers(containers=(container(n),), user="ann")])
        for n in (2, 1, 3, 1, 4)
    ]
    refused = [isinstance(call.exception(30), IntegrityError) for call in calls]
    assert refused == [False, True, False, True, False]
    assert [store.container(container(n).id) is not None for n in (2, 3, 4)] == [True] * 3


def test_what_no_database_can_hold_is_refused_alone(store: Store) -> None:
    for bad in (container(2, exit_code=2**70), container(3, user="\ud800")):
        call = store.write([InsertContainers(containers=(bad,), user="ann")])
        assert call.exception(30) is not None
        assert store.container(bad.id) is None
    assert store.problem == ""
    insert(store, container(4))


def test_the_engine_saves_its_own_columns_only(store: Store) -> None:
    first = container(1)
    insert(store, first)
    store.write([RequestPriority(container_id=first.id, priority=9)]).result(30)
    store.write([RequestCancel(container_id=first.id)]).result(30)
    done = replace(
        first,
        state=ContainerState.FAILED,
        started_at=1.0,
        finished_at=2.0,
        exit_code=3,
        reason=Reason(code="exit", message="ended with 3"),
        cost_usd=Decimal("0.000100"),
    )
    tried = attempt(first, outcome=AttemptOutcome.FAILED, exit_code=3)
    store.write([SaveContainer(container=done), SaveAttempt(attempt=tried)]).result(30)
    expected = replace(done, priority=9, cancel_requested=True, attempts=(tried,))
    assert store.container(first.id) == expected


def test_saving_replaces_an_attempt_and_keeps_all_of_them(store: Store) -> None:
    first = container(1)
    insert(store, first)
    one, two = attempt(first, 1), attempt(first, 2, instance_id="i-2")
    store.write([SaveAttempt(attempt=two), SaveAttempt(attempt=one)]).result(30)
    ended = replace(
        one, outcome=AttemptOutcome.LOST, reason=Reason(code="gone", message="x"), log_complete=True
    )
    store.write([SaveAttempt(attempt=ended)]).result(30)
    found = store.container(first.id)
    assert found is not None
    assert found.attempts == (ended, two)


def test_what_an_attempt_was_given_is_kept(store: Store) -> None:
    one = container(1)
    insert(store, one)
    given = Resources(cpu_millis=2000, memory_bytes=5, custom=(("licence", 1),))
    tried = [attempt(one, 1), attempt(one, 2, resources=given)]
    store.write([SaveAttempt(attempt=each) for each in tried]).result(30)
    found = store.container(one.id)
    assert found is not None
    assert [each.resources for each in found.attempts] == [None, given]


def test_saving_what_is_not_there_is_an_error(store: Store) -> None:
    insert(store, container(1))
    present, absent = container(1), container(2)
    call = store.write([SaveContainer(container=present), SaveContainer(container=absent)])
    assert isinstance(call.exception(30), NoSuchContainer)
    assert isinstance(
        store.write([SaveAttempt(attempt=attempt(absent))]).exception(30), IntegrityError
    )
    begun = replace(absent, attempts=(attempt(absent),))
    call = store.write([InsertContainers(containers=(begun,), user="ann")])
    assert isinstance(call.exception(30), BugError)


def test_the_last_of_several_savings_counts(store: Store) -> None:
    first = container(1)
    insert(store, first)
    locked = replace(first, state=ContainerState.LOCKED)
    running = replace(first, state=ContainerState.RUNNING, started_at=5.0)
    store.write([SaveContainer(container=locked), SaveContainer(container=running)]).result(30)
    assert store.container(first.id) == running


@pytest.mark.parametrize("state", [s for s in ContainerState if s.final])
def test_an_ended_container_takes_no_request(store: Store, state: ContainerState) -> None:
    ended = container(1, state=state)
    insert(store, ended)
    for change in (
        RequestCancel(container_id=ended.id),
        RequestPriority(container_id=ended.id, priority=1),
    ):
        error = store.write([change]).exception(30)
        assert isinstance(error, AlreadyFinal)
        assert error.state is state
    assert store.container(ended.id) == ended
    unknown = store.write([RequestCancel(container_id="c-none")]).exception(30)
    assert isinstance(unknown, NoSuchContainer)


def test_a_repeated_key_means_the_same_request(store: Store) -> None:
    key = {"idempotency_key": "k", "fingerprint": "f"}
    insert(store, container(1), container(2), **key)
    with pytest.raises(IdempotentRepeat) as repeated:
        insert(store, container(3), container(4), **key)
    assert repeated.value.container_ids == (container(1).id, container(2).id)
    with pytest.raises(IdempotencyConflict):
        insert(store, container(3), idempotency_key="k", fingerprint="other")
    assert store.container(container(3).id) is None
    insert(store, container(3), user="bob", **key)
    insert(store, container(4), fingerprint="f")
    insert(store, container(5), fingerprint="f")


def test_a_key_is_forgotten_after_a_day(store: Store, clock: Clock) -> None:
    key = {"idempotency_key": "k", "fingerprint": "f"}
    insert(store, container(1), **key)
    clock.now += DAY_S - 1
    with pytest.raises(IdempotentRepeat):
        insert(store, container(2), **key)
    clock.now += 1
    insert(store, container(2), **key)


def test_a_key_whose_request_was_refused_is_free(store: Store) -> None:
    insert(store, container(1))
    with pytest.raises(IntegrityError):
        insert(store, container(1), idempotency_key="k", fingerprint="f")
    insert(store, container(2), idempotency_key="k", fingerprint="f")


def test_sequences_go_on_after_a_restart(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    assert list(store.next_sequences(3)) == [1, 2, 3]
    (fourth,) = store.next_sequences(1)
    insert(store, container(fourth, state=ContainerState.CANCELLED))
    store.close()
    store = Store.open(url_in(tmp_path))
    assert store.next_sequences(1)[0] == 5
    store.close()


def test_recovery_finds_what_is_unfinished(store: Store) -> None:
    every = [container(n, state=state) for n, state in enumerate(ContainerState, 1)]
    insert(store, *every)
    tried = {each.id: (attempt(each, 1), attempt(each, 2)) for each in every}
    launch = Launch(token="t-1", type_name="small", secret="s", created_at=1.0)
    gone = instance("i-gone", gone_at=5.0, gone_reason="idle")
    changes: list[Change] = [SaveAttempt(attempt=each) for pair in tried.values() for each in pair]
    changes += [SaveLaunch(launch=launch), SaveLaunch(launch=replace(launch, token="t-2"))]
    changes += [DeleteLaunch(token="t-2"), SaveInstance(instance=instance())]
    changes += [SaveInstance(instance=gone)]
    store.write(changes).result(30)
    found = store.recover()
    assert found.containers == tuple(
        replace(each, attempts=tried[each.id]) for each in every if not each.state.final
    )
    assert found.launches == (launch,)
    assert found.instances == (instance(),)
    assert store.instance("i-gone") == gone
    assert store.instance("i-none") is None


@pytest.mark.parametrize("reason", [None, "", "bad disk"])
def test_why_an_instance_was_killed_is_recovered(store: Store, reason: str | None) -> None:
    known = instance(killed=reason)
    store.write([SaveInstance(instance=instance())]).result(30)
    store.write([SaveInstance(instance=known)]).result(30)
    assert store.recover().instances == (known,)


def test_a_launch_saved_and_deleted_in_one_call_keeps_their_order(store: Store) -> None:
    launch = Launch(token="t-1", type_name="small", secret="s", created_at=1.0)
    store.write([SaveLaunch(launch=launch), DeleteLaunch(token="t-1")]).result(30)
    assert store.recover().launches == ()
    store.write([DeleteLaunch(token="t-1"), SaveLaunch(launch=launch)]).result(30)
    assert store.recover().launches == (launch,)


def test_unreleased_attempts_are_ended_unlogged_and_reachable(store: Store) -> None:
    every = [container(n) for n in range(1, 5)]
    insert(store, *every)
    ended, lost = AttemptOutcome.SUCCEEDED, AttemptOutcome.LOST
    wanted = attempt(every[0], outcome=ended)
    others = [
        attempt(every[1], outcome=ended, log_complete=True),
        attempt(every[2]),
        attempt(every[3], outcome=lost, instance_id="i-gone"),
    ]
    changes: list[Change] = [SaveAttempt(attempt=each) for each in (*others, wanted)]
    changes += [SaveInstance(instance=instance())]
    changes += [SaveInstance(instance=instance("i-gone", gone_at=1.0))]
    store.write(changes).result(30)
    assert store.recover().unreleased == (wanted,)


def listed(store: Store, which: ContainerFilter, limit: int) -> list[Container]:
    """Follow the cursors to the end."""
    found: list[Container] = []
    cursor: str | None = ""
    while cursor is not None:
        page = store.containers(which, cursor=cursor, limit=limit)
        assert len(page.items) <= limit
        found += page.items
        cursor = page.next_cursor
    return found


def test_pages_cover_every_container_once_newest_first(store: Store) -> None:
    states = list(ContainerState)
    every = [
        container(
            n,
            state=states[n % 6],
            user=("ann", "bob")[n % 2],
            project=("apollo", "gemini", "mercury")[n % 3],
            spec=replace(SPEC, name=f"n{n % 4}"),
        )
        for n in range(1, 41)
    ]
    insert(store, *every)
    tried = [attempt(each, instance_id=f"i-{each.sequence % 5}") for each in every]
    store.write([SaveAttempt(attempt=each) for each in tried]).result(30)
    every = [replace(each, attempts=(one,)) for each, one in zip(every, tried, strict=True)]
    every.reverse()
    some = (ContainerState.QUEUED, ContainerState.FAILED, ContainerState.QUEUED)
    filters: dict[ContainerFilter, Callable[[Container], bool]] = {
        EVERYTHING: lambda _: True,
        ContainerFilter(states=some): lambda c: c.state in some,
        ContainerFilter(user="ann"): lambda c: c.user == "ann",
        ContainerFilter(user="nobody"): lambda _: False,
        ContainerFilter(project="gemini", user="bob"): lambda c: (
            c.project == "gemini" and c.user == "bob"
        ),
        ContainerFilter(name="n1", states=some): lambda c: c.spec.name == "n1" and c.state in some,
        ContainerFilter(instance_id="i-3"): lambda c: c.attempts[0].instance_id == "i-3",
        ContainerFilter(instance_id="i-3", user="ann", states=some): lambda c: (
            c.attempts[0].instance_id == "i-3" and c.user == "ann" and c.state in some
        ),
    }
    for which, wanted in filters.items():
        for limit in (1, 3, 40, 1000):
            assert listed(store, which, limit) == [c for c in every if wanted(c)], which


def test_a_page_has_the_last_attempts_of_each_and_one_alone_has_all(store: Store) -> None:
    made = [container(number) for number in (1, 2, 3)]
    insert(store, *made)
    counts = (LISTED_ATTEMPTS + 3, 0, LISTED_ATTEMPTS)
    tried = [
        tuple(attempt(one, number) for number in range(1, count + 1))
        for one, count in zip(made, counts, strict=True)
    ]
    store.write([SaveAttempt(attempt=each) for some in tried for each in some]).result(30)
    whole = [replace(one, attempts=some) for one, some in zip(made, tried, strict=True)]
    assert [store.container(one.id) for one in made] == whole
    assert list(store.recover().containers) == whole
    short = [replace(one, attempts=one.attempts[-LISTED_ATTEMPTS:]) for one in whole]
    assert listed(store, EVERYTHING, 1000) == short[::-1]


def test_two_attempts_on_one_instance_list_a_container_once(store: Store) -> None:
    one = container(1)
    insert(store, one)
    tried = (attempt(one, 1), attempt(one, 2))
    store.write([SaveAttempt(attempt=each) for each in tried]).result(30)
    found = listed(store, ContainerFilter(instance_id="i-1"), 1)
    assert found == [replace(one, attempts=tried)]


@pytest.mark.parametrize("cursor", ["x", "YmVmb3JlIHg=", "YmVmb3JlIDA1", "é", "YQ==", "=" * 5000])
def test_a_strange_cursor_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        store.containers(EVERYTHING, cursor=cursor, limit=10)
    assert caught.value.problems[0][0] == "cursor"


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_page_has_a_limit(store: Store, limit: int) -> None:
    with pytest.raises(InvalidRequest):
        store.containers(EVERYTHING, cursor="", limit=limit)


def test_a_closed_store_takes_nothing(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    late = [store.write([InsertContainers(containers=(container(n),), user="a")]) for n in (1, 2)]
    store.close()
    store.close()
    assert [call.exception(0) for call in late] == [None, None]
    with pytest.raises(StoreClosed):
        store.write([RequestCancel(container_id="c-1")])
