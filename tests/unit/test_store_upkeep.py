"""What the store throws away goes in small steps, between what is committed for others."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from longshore.dispatcher.store.errors import IdempotentRepeat
from longshore.dispatcher.store.idempotency import FORGOTTEN_AT_ONCE
from longshore.dispatcher.store.store import Store
from tests.store_values import container, insert, url_in

MANY = 200_000
DAY_S = 86_400.0


def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    gate = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it never became true"
        gate.wait(0.01)


def give_keys(directory: Path, number: int, *, created_at: float) -> None:
    """Put so many keys into a store that nobody has open, as if users had sent them."""
    database = sqlite3.connect(directory / "longshore.db")
    with database:
        database.executemany(
            "INSERT INTO idempotency VALUES ('ann', ?, 'f', ?, ?)",
            ((f"{n * 7919 % number:032x}", b'["c-1"]', created_at) for n in range(number)),
        )
    database.close()


def count_keys(directory: Path) -> int:
    database = sqlite3.connect(directory / "longshore.db")
    (number,) = database.execute("SELECT count(*) FROM idempotency").fetchone()
    database.close()
    return int(number)


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """Return where a store lies that has the keys of a busy yesterday."""
    Store.open(url_in(tmp_path)).close()
    give_keys(tmp_path, MANY, created_at=time.time() - 2 * DAY_S)
    return tmp_path


def test_no_request_pays_for_the_keys_of_yesterday(crowded: Path) -> None:
    store = Store.open(url_in(crowded))
    left = []
    for number in range(1, 51):
        insert(store, container(number), idempotency_key=f"new {number}", fingerprint="f")
        left.append(count_keys(crowded))
    steps = [before - after for before, after in zip([MANY, *left], left, strict=False)]
    store.close()
    assert left[-1] > MANY / 2, "others were committed while most of them were there still"
    assert max(steps) < MANY / 10, "nobody waited for thousands of them to go"


def test_what_nobody_waits_for_goes_by_itself(tmp_path: Path) -> None:
    Store.open(url_in(tmp_path)).close()
    number = 3 * FORGOTTEN_AT_ONCE + 1
    give_keys(tmp_path, number, created_at=time.time() - 2 * DAY_S)
    store = Store.open(url_in(tmp_path))
    until(lambda: count_keys(tmp_path) == 0)
    insert(store, container(1), idempotency_key="k", fingerprint="f")
    store.close()
    assert count_keys(tmp_path) == 1, "one of today stays"


def test_an_old_key_means_nothing_though_it_is_there_still(crowded: Path) -> None:
    store = Store.open(url_in(crowded))
    old = f"{MANY - 1:032x}"
    insert(store, container(1), idempotency_key=old, fingerprint="f")
    with pytest.raises(IdempotentRepeat) as repeated:
        insert(store, container(2), idempotency_key=old, fingerprint="f")
    assert repeated.value.container_ids == (container(1).id,)
    store.close()
