"""The keys by which a request that is sent again is known, for a day."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, delete, insert, select

from dispatcher.store import codec, tables
from dispatcher.store.errors import IdempotencyConflict, IdempotentRepeat

IDEMPOTENCY_KEPT_S = 24 * 3600.0

_FIND_KEY = (
    select(tables.idempotency)
    .where(tables.idempotency.c.user == bindparam("user"))
    .where(tables.idempotency.c.key == bindparam("key"))
)
_INSERT_KEY = insert(tables.idempotency)
_FORGET_KEYS = delete(tables.idempotency).where(
    tables.idempotency.c.created_at <= bindparam("cutoff")
)


def claim_key(
    connection: Connection,
    *,
    user: str,
    key: str,
    fingerprint: str,
    ids: tuple[str, ...],
    now: float,
) -> None:
    """Note that a user's request with `key` makes `ids`, and forget the keys of yesterday.

    Raises `IdempotentRepeat` when the same request made something before, `IdempotencyConflict`
    when the key was another's. `now` is in seconds since the epoch.
    """
    connection.execute(_FORGET_KEYS, {"cutoff": now - IDEMPOTENCY_KEPT_S})
    where = {"user": user, "key": key}
    known = connection.execute(_FIND_KEY, where).one_or_none()
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
    connection.execute(_INSERT_KEY, row)
