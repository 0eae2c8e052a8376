"""Who submitted whom from inside, in the store: trees, and that a closed parent takes no child."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from longshore.dispatcher.domain.containers import Container, ContainerState
from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.domain.messages import (
    Change,
    InsertContainers,
    RequestCancel,
    RequestJobCancel,
    SaveContainer,
    SaveJob,
)
from longshore.dispatcher.domain.queries import ContainerFilter
from longshore.dispatcher.store.errors import ParentClosed
from longshore.dispatcher.store.store import Store
from tests.store_values import container, insert_job, job, task, url_in


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(url_in(tmp_path))
    yield opened
    opened.close()


def write(store: Store, *changes: Change) -> None:
    store.write(changes).result(timeout=10)


def family(store: Store, *edges: tuple[str, str]) -> None:
    """Store containers, each with who submitted it, "" for nobody."""
    for number, (name, parent) in enumerate(edges, 1):
        write(store, InsertContainers(containers=(child(name, parent, number),), user="u"))


def child(name: str, parent: str, number: int = 99) -> Container:
    return container(number, id=name, parent=parent)


TREE = (("c-a", ""), ("c-b", "c-a"), ("c-c", "c-b"), ("c-d", "c-a"), ("c-x", ""))


def test_a_parent_is_kept_and_listed_by(store: Store) -> None:
    family(store, *TREE)
    found = store.container("c-c")
    assert found is not None
    assert found.parent == "c-b"
    page = store.containers(ContainerFilter(parent="c-a"), cursor="", limit=10)
    assert [each.id for each in page.items] == ["c-d", "c-b"]
    none = store.containers(
        ContainerFilter(parent="c-a", states=(ContainerState.FAILED,)), cursor="", limit=10
    )
    assert none.items == ()


def test_ancestors_come_the_nearest_first(store: Store) -> None:
    family(store, *TREE)
    assert store.ancestors("c-c") == ("c-b", "c-a")
    assert store.ancestors("c-a") == ()
    assert store.ancestors("c-unknown") == ()


def test_descendants_are_all_below_and_what_they_cost(store: Store) -> None:
    family(store, *TREE)
    ended = replace(child("c-b", "c-a", 2), state=ContainerState.FAILED, cost_usd=Decimal("0.5"))
    write(store, SaveContainer(container=ended))
    for of, rest in (("c-a", ("c-c", "c-d")), ("c-b", ("c-c",)), ("c-x", ())):
        found = store.open_below(of)
        assert (found.containers, found.jobs) == (rest, ())
    costs = [store.cost_below_usd(of) for of in ("c-a", "c-b", "c-x")]
    assert costs == [Decimal("0.5"), Decimal(0), None]


def test_what_a_job_of_a_child_has_is_below_too(store: Store) -> None:
    family(store, ("c-a", ""))
    made = job(7, task("t", 2), parent="c-a")
    first, second = insert_job(store, made, 7)
    write(store, InsertContainers(containers=(child("c-a2", "c-a", 20),), user="u"))
    found = store.open_below("c-a")
    assert (found.containers, found.jobs) == (("c-a2",), ("j-7",))
    write(store, SaveContainer(container=replace(second, cost_usd=Decimal("0.25"))))
    assert store.cost_below_usd("c-a") == Decimal("0.25")
    assert store.ancestors(second.id) == ("j-7", "c-a")
    assert store.ancestors(first.id) == ("j-7", "c-a")


def test_a_closed_parent_takes_no_job(store: Store) -> None:
    family(store, ("c-a", ""))
    write(store, RequestCancel(container_id="c-a"))
    with pytest.raises(ParentClosed):
        insert_job(store, job(7, task(), parent="c-a"), 7)
    assert store.job("j-7") is None


@pytest.mark.parametrize("how", ["ended", "cancelled", "unknown"])
def test_a_closed_job_has_no_more_runs(store: Store, how: str) -> None:
    made, parent = job(1, task()), "j-1"
    insert_job(store, made, 1)
    match how:
        case "ended":
            write(store, SaveJob(job=replace(made, state=JobState.CANCELLED)))
        case "cancelled":
            write(store, RequestJobCancel(job_id="j-1"))
        case _:
            parent = "j-unknown"
    with pytest.raises(ParentClosed):
        insert_job(store, job(7, task(), parent=parent), 7)
    assert store.job("j-7") is None


@pytest.mark.parametrize("how", ["ended", "cancelled", "unknown"])
def test_a_closed_parent_takes_no_child(store: Store, how: str) -> None:
    family(store, ("c-a", ""))
    parent = "c-a"
    match how:
        case "ended":
            state = ContainerState.SUCCEEDED
            write(store, SaveContainer(container=replace(child("c-a", "", 1), state=state)))
        case "cancelled":
            write(store, RequestCancel(container_id="c-a"))
        case _:
            parent = "c-unknown"
    with pytest.raises(ParentClosed):
        write(store, InsertContainers(containers=(child("c-b", parent),), user="u"))
    assert store.container("c-b") is None
