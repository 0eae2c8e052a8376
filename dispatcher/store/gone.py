"""Pages of the instances that are gone, from the index by when they went."""

from __future__ import annotations

from sqlalchemy import Connection, select, tuple_

from longshore.dispatcher.domain.cursors import decode_cursor, encode_cursor, not_our_cursor
from longshore.dispatcher.domain.queries import InstancePage
from longshore.dispatcher.store import codec
from longshore.dispatcher.store.paging import expect_limit
from longshore.dispatcher.store.tables import instances

_GONE = "gone"


def fetch_gone(connection: Connection, *, cursor: str, limit: int) -> InstancePage:
    """Return up to `limit` of those that are gone, the last gone first, by their ids at one time.

    Raises `InvalidRequest` for a limit that is too large, or a cursor that is not ours.
    """
    expect_limit(limit)
    place = tuple_(instances.c.gone_at, instances.c.id)
    query = (
        select(instances)
        .where(instances.c.gone_at.is_not(None))
        .order_by(instances.c.gone_at.desc(), instances.c.id.desc())
        .limit(limit + 1)
    )
    if cursor:
        query = query.where(place < tuple_(*_place_in(cursor)))
    found = [codec.instance_from_row(row) for row in connection.execute(query)]
    shown = tuple(found[:limit])
    more = len(found) > limit
    following = encode_cursor(_GONE, f"{shown[-1].gone_at!r} {shown[-1].id}") if more else None
    return InstancePage(items=shown, next_cursor=following)


def _place_in(cursor: str) -> tuple[float, str]:
    gone_at, _, instance_id = decode_cursor(_GONE, cursor).partition(" ")
    try:
        return float(gone_at), instance_id
    except ValueError:
        raise not_our_cursor() from None
