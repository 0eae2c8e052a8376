"""What the store throws away goes in small steps, between what is committed for others."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from longshore.dispatcher.config.model import AuditConfig
from longshore.dispatcher.domain.audit import AuditEntry, AuditFilter
from longshore.dispatcher.domain.messages import InsertToken, SaveAudit
from longshore.dispatcher.domain.principals import Role
from longshore.dispatcher.domain.tokens import ENDED_KEPT_S, Token
from longshore.dispatcher.store.errors import IdempotentRepeat
from longshore.dispatcher.store.store import Store
from longshore.dispatcher.store.upkeep import FORGOTTEN_AT_ONCE
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


def count(directory: Path, asked: str = "SELECT count(*) FROM idempotency") -> int:
    database = sqlite3.connect(directory / "longshore.db")
    (number,) = database.execute(asked).fetchone()
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
        left.append(count(crowded))
    steps = [before - after for before, after in zip([MANY, *left], left, strict=False)]
    store.close()
    assert left[-1] > MANY / 2, "others were committed while most of them were there still"
    assert max(steps) < MANY / 10, "nobody waited for thousands of them to go"


def test_what_nobody_waits_for_goes_by_itself(tmp_path: Path) -> None:
    Store.open(url_in(tmp_path)).close()
    number = 3 * FORGOTTEN_AT_ONCE + 1
    give_keys(tmp_path, number, created_at=time.time() - 2 * DAY_S)
    store = Store.open(url_in(tmp_path))
    until(lambda: count(tmp_path) == 0)
    insert(store, container(1), idempotency_key="k", fingerprint="f")
    store.close()
    assert count(tmp_path) == 1, "one of today stays"


def test_an_old_key_means_nothing_though_it_is_there_still(crowded: Path) -> None:
    store = Store.open(url_in(crowded))
    old = f"{MANY - 1:032x}"
    insert(store, container(1), idempotency_key=old, fingerprint="f")
    with pytest.raises(IdempotentRepeat) as repeated:
        insert(store, container(2), idempotency_key=old, fingerprint="f")
    assert repeated.value.container_ids == (container(1).id,)
    store.close()


def entry(sequence: int, *, at: float) -> AuditEntry:
    return AuditEntry(
        sequence=sequence,
        at=at,
        user="ann",
        role="user",
        door="token",
        token_id="t-1",
        address="127.0.0.1",
        action="POST /v1/containers",
    )


def noted(store: Store) -> list[int]:
    return [each.sequence for each in store.audit(AuditFilter(), cursor="", limit=1000).items]


def test_the_audit_log_goes_by_its_age_though_nobody_changes_anything(tmp_path: Path) -> None:
    now, kept_s = time.time(), 7200.0
    store = Store.open(url_in(tmp_path))
    ages = {1: 10 * kept_s, 2: kept_s + 60, 3: kept_s - 600, 4: 0.0}
    store.write([SaveAudit(entry=entry(n, at=now - age)) for n, age in ages.items()]).result(30)
    store.close()
    store = Store.open(url_in(tmp_path), audit=AuditConfig(kept_s=kept_s))
    until(lambda: noted(store) != [4, 3, 2, 1])
    assert noted(store) == [4, 3]
    store.close()


def test_an_audit_log_that_is_to_be_shorter_is_so_soon_and_a_few_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.store.writer.UPKEEP_PAUSE_S", 0.005)
    now, kept = time.time(), 1000
    number = kept + 5 * FORGOTTEN_AT_ONCE + 1
    store = Store.open(url_in(tmp_path))
    store.write([SaveAudit(entry=entry(n + 1, at=now)) for n in range(number)]).result(30)
    store.close()
    store = Store.open(url_in(tmp_path), audit=AuditConfig(entries=kept))
    left = []

    def is_short() -> bool:
        left.append(count(tmp_path, "SELECT count(*) FROM audit"))
        return left[-1] <= kept

    until(is_short)
    assert noted(store)[:2] == [number, number - 1], "the oldest go"
    store.close()
    assert left[-1] == kept
    # A look may miss a step or two, never as many as there are.
    assert any(kept < each < number for each in left)


def token(name: str, *, expires_at: float | None = None, revoked_at: float | None = None) -> Token:
    return Token(
        id=f"t-{name}",
        name=name,
        user="ci",
        role=Role.USER,
        projects=("a",),
        default_project="a",
        digest="",
        created_at=0.0,
        created_by="root",
        expires_at=expires_at,
        revoked_at=revoked_at,
    )


def test_tokens_that_ended_long_ago_go(tmp_path: Path) -> None:
    now = time.time()
    long_ago, lately = now - ENDED_KEPT_S - 60, now - ENDED_KEPT_S + 600
    tokens = [
        token("expired_long_ago", expires_at=long_ago),
        token("expired_lately", expires_at=lately),
        token("revoked_long_ago", revoked_at=long_ago, expires_at=now + 9),
        token("revoked_lately", revoked_at=lately),
        token("for_ever"),
        token("for_a_while", expires_at=now + 9),
    ]
    store = Store.open(url_in(tmp_path))
    store.write(
        [
            InsertToken(token=each, user="root", idempotency_key="", fingerprint="")
            for each in tokens
        ]
    ).result(30)
    store.close()
    store = Store.open(url_in(tmp_path))
    until(lambda: len(store.tokens()) < len(tokens))
    left = {each.id for each in store.tokens()}
    store.close()
    assert left == {"t-expired_lately", "t-revoked_lately", "t-for_ever", "t-for_a_while"}
    assert left == {each.id for each in tokens if not each.is_long_over(now)}
