"""Tokens in memory: those that ended long ago make room, and a page is of those behind a cursor."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.domain.tokens import ENDED_KEPT_S, Token, TokenState
from longshore.dispatcher.service.contracts import Conflict, NotFound
from longshore.dispatcher.service.tokens import FORGET_EACH_S, NewToken, TokenService
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest
from tests.store_values import url_in

ADMIN = Principal(user="root", role=Role.ADMIN, door=Door.SOCKET)
DAY_S = 86400.0
START = 1_700_000_000.0


class Clock:
    def __init__(self) -> None:
        self.now = START


def known(number: int, *, user: str = "ci", expires_at: float | None = None) -> Token:
    return Token(
        id=f"t-{number:010x}",
        name="",
        user=user,
        role=Role.USER,
        projects=("a",),
        default_project="a",
        digest="",
        created_at=START,
        created_by="root",
        expires_at=expires_at,
    )


@contextmanager
def service(directory: Path, tokens: Iterable[Token] = ()) -> Iterator[tuple[TokenService, Clock]]:
    clock, numbers = Clock(), itertools.count(1)
    store = Store.open(url_in(directory), wall_clock=lambda: clock.now)
    yield (
        TokenService(
            store=store,
            known=tokens,
            now=lambda: clock.now,
            random_bytes=lambda number: next(numbers).to_bytes(number, "big"),
        ),
        clock,
    )
    store.close()


async def made(tokens: TokenService, *, expires_at: float | None = None) -> Token:
    wanted = NewToken(
        name="",
        user="ci",
        role=Role.USER,
        projects=("a",),
        default_project="a",
        expires_at=expires_at,
    )
    return (await tokens.create(wanted, caller=ADMIN))[0]


def ids(tokens: TokenService, **given: str) -> list[str]:
    page = tokens.tokens(user=given.get("user", ""), state=None, cursor="", limit=1000)
    return [each.id for each in page.items]


async def test_tokens_of_a_day_do_not_use_up_what_there_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.service.tokens.TOKENS_MOST", 4)
    with service(tmp_path) as (tokens, clock):
        expired = await made(tokens, expires_at=START + DAY_S)
        revoked = await made(tokens)
        await tokens.revoke(revoked.id, caller=ADMIN)
        stays = [await made(tokens), await made(tokens, expires_at=START + 1000 * DAY_S)]
        with pytest.raises(Conflict, match="90 days"):
            await made(tokens)
        clock.now = START + ENDED_KEPT_S
        new = await made(tokens)
        with pytest.raises(Conflict):
            await made(tokens)
        with pytest.raises(NotFound):
            tokens.token(revoked.id)
        assert tokens.token(expired.id) == expired, "it ended a day later"
        clock.now += DAY_S
        assert ids(tokens) == sorted(each.id for each in (*stays, new))


async def test_a_clock_that_was_set_back_does_not_keep_them(tmp_path: Path) -> None:
    with service(tmp_path, [known(1, expires_at=START - ENDED_KEPT_S - DAY_S)]) as (tokens, clock):
        clock.now = START - 10 * DAY_S
        assert len(ids(tokens)) == 1
        clock.now = START
        assert ids(tokens) == []
        tokens._tokens["t-2"], tokens._ids = known(2, expires_at=START - 365 * DAY_S), ["t-2"]
        clock.now = START - FORGET_EACH_S
        assert ids(tokens) == []


def test_pages_follow_each_other(tmp_path: Path) -> None:
    there = [known(n, user="ann" if n % 3 else "bob", expires_at=START + n) for n in range(10)]
    with service(tmp_path, reversed(there)) as (tokens, clock):
        clock.now = START + 4
        cursor, got = "", []
        while True:
            page = tokens.tokens(user="ann", state=TokenState.ACTIVE, cursor=cursor, limit=2)
            got.append([each.id for each in page.items])
            if page.next_cursor is None:
                break
            cursor = page.next_cursor
        assert got == [[known(5).id, known(7).id], [known(8).id]]
        with pytest.raises(InvalidRequest):
            tokens.tokens(user="", state=None, cursor="eA==", limit=2)
