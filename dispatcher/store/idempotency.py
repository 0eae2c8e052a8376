"""The keys by which a request that is sent again is known, for a day.

An older one means nothing, whether it is there still or not: the upkeep takes them away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from longshore.dispatcher.store import codec, sqlite, tables
from longshore.dispatcher.store.errors import IdempotencyConflict, IdempotentRepeat

IDEMPOTENCY_KEPT_S = 24 * 3600.0

_FIND_KEY = (
    select(tables.idempotency)
    .where(tables.idempotency.c.user == bindparam("user"))
    .where(tables.idempotency.c.key == bindparam("key"))
    .where(tables.idempotency.c.created_at > bindparam("cutoff"))
)
# One of yesterday may be there still.
_SAVE_KEY = sqlite.upsert(tables.idempotency, keep=())
_FORGET_SOME = sqlite.delete_some(
    tables.idempotency, tables.idempotency.c.created_at <= bindparam("cutoff")
)


def of_job(fingerprint: str) -> str:
    """Return that of a job: containers with the same key and text are another request."""
    return f"job {fingerprint}"


def claim_key(
    connection: Connection,
    *,
    user: str,
    key: str,
    fingerprint: str,
    ids: tuple[str, ...],
    now: float,
) -> None:
    """Note that a user's request with `key` makes `ids`.

    Raises `IdempotentRepeat` when the same request made something before, `IdempotencyConflict`
    when the key was another's. `now` is in seconds since the epoch.
    """
    where = {"user": user, "key": key}
    known = _find(connection, where, now)
    if known is not None and known.fingerprint == fingerprint:
        raise IdempotentRepeat(codec.decode_ids(known.container_ids))
    if known is not None:
        raise IdempotencyConflict(
            "this Idempotency-Key was used for another request within the last 24 hours:"
            " take a new key"
        )
    row = {
        **where,
        "fingerprint": fingerprint,
        "container_ids": codec.encode_ids(ids),
        "created_at": now,
    }
    connection.execute(_SAVE_KEY, row)


def made_by(
    connection: Connection, *, user: str, key: str, fingerprint: str, now: float
) -> tuple[str, ...]:
    """Return what a user's request with `key` made before, () if that is not known.

    `now` is in seconds since the epoch.
    """
    known = _find(connection, {"user": user, "key": key}, now)
    if known is None or known.fingerprint != fingerprint:
        return ()
    return codec.decode_ids(known.container_ids)


def _find(connection: Connection, where: Mapping[str, str], now: float) -> Row[Any] | None:
    cutoff = now - IDEMPOTENCY_KEPT_S
    return connection.execute(_FIND_KEY, {**where, "cutoff": cutoff}).one_or_none()


def forget_keys(connection: Connection, *, now: float, at_once: int) -> int:
    """Take away keys of yesterday, `at_once` at most; return how many.

    `now` is in seconds since the epoch.
    """
    given = {"cutoff": now - IDEMPOTENCY_KEPT_S, "at_once": at_once}
    return connection.execute(_FORGET_SOME, given).rowcount
