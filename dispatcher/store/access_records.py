"""Tokens and the audit log in the store: their rows, their changes, and how they are read."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, Row, bindparam, func, or_, select, update

from longshore.dispatcher.domain.audit import AuditEntry, AuditFilter, AuditPage
from longshore.dispatcher.domain.messages import NoteTokenUse
from longshore.dispatcher.domain.principals import Role
from longshore.dispatcher.domain.tokens import ENDED_KEPT_S, Token
from longshore.dispatcher.store import sqlite, tables
from longshore.dispatcher.store.paging import page_of

_NAMES = msgspec.json.Decoder(tuple[str, ...])
_FORGET_AUDIT = sqlite.delete_some(
    tables.audit,
    or_(
        tables.audit.c.at < bindparam("before"),
        tables.audit.c.sequence <= bindparam("up_to"),
    ),
)
# As `Token.is_long_over` says it.
_FORGET_TOKENS = sqlite.delete_some(
    tables.tokens,
    or_(
        tables.tokens.c.revoked_at <= bindparam("before"),
        tables.tokens.c.expires_at <= bindparam("before"),
    ),
)
_NOTE_USE = (
    update(tables.tokens)
    .where(tables.tokens.c.id == bindparam("of"))
    .values(last_used_at=bindparam("used_at"))
)
SAVE_TOKEN = sqlite.upsert(tables.tokens, keep=())
SAVE_AUDIT = sqlite.upsert(tables.audit, keep=())


def token_values(token: Token) -> dict[str, Any]:
    """Return the row of a token."""
    return {
        "id": token.id,
        "name": token.name,
        "user": token.user,
        "role": token.role.value,
        "projects": msgspec.json.encode(token.projects),
        "default_project": token.default_project,
        "digest": token.digest,
        "created_at": token.created_at,
        "created_by": token.created_by,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
        "revoked_by": token.revoked_by,
        "last_used_at": token.last_used_at,
    }


def _token_from_row(row: Row[Any]) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        user=row.user,
        role=Role(row.role),
        projects=_NAMES.decode(row.projects),
        default_project=row.default_project,
        digest=row.digest,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        revoked_by=row.revoked_by,
        last_used_at=row.last_used_at,
    )


def fetch_tokens(connection: Connection) -> list[Token]:
    """Return all tokens, by id."""
    rows = connection.execute(select(tables.tokens).order_by(tables.tokens.c.id))
    return [_token_from_row(row) for row in rows]


def note_use(connection: Connection, change: NoteTokenUse) -> None:
    """Keep when a token was used."""
    connection.execute(_NOTE_USE, {"of": change.token_id, "used_at": change.at})


def forget_tokens(connection: Connection, *, now: float, at_once: int) -> int:
    """Take away tokens that ended long ago, `at_once` at most; return how many.

    `now` is in seconds since the epoch.
    """
    given = {"before": now - ENDED_KEPT_S, "at_once": at_once}
    return connection.execute(_FORGET_TOKENS, given).rowcount


def audit_values(entry: AuditEntry) -> dict[str, Any]:
    """Return the row of an entry of the audit log."""
    return {
        "sequence": entry.sequence,
        "at": entry.at,
        "user": entry.user,
        "role": entry.role,
        "door": entry.door,
        "token_id": entry.token_id,
        "address": entry.address,
        "action": entry.action,
        "detail": entry.detail,
        "made": entry.made,
        "status": entry.status,
    }


def forget_audit(connection: Connection, *, before: float, entries: int, at_once: int) -> int:
    """Take away entries of the audit log, `at_once` at most; return how many.

    Those from `before` (seconds since the epoch) go, and those in front of the last `entries`.
    """
    up_to = last_audit_sequence(connection) - entries
    given = {"before": before, "up_to": up_to, "at_once": at_once}
    return connection.execute(_FORGET_AUDIT, given).rowcount


def last_audit_sequence(connection: Connection) -> int:
    """Return the highest number that an entry of the audit log has, 0 without any."""
    return int(connection.execute(select(func.max(tables.audit.c.sequence))).scalar() or 0)


def fetch_audit(
    connection: Connection, which: AuditFilter, *, cursor: str, limit: int
) -> AuditPage:
    """Return a page of the audit log, newest first.

    Raises `InvalidRequest` for a limit that is too large, or a cursor that is not ours.
    """
    columns = tables.audit.c
    query = select(columns.sequence)
    if which.user:
        query = query.where(columns.user == which.user)
    if which.token_id:
        query = query.where(columns.token_id == which.token_id)
    if which.since is not None:
        query = query.where(columns.at >= which.since)
    if which.until is not None:
        query = query.where(columns.at < which.until)
    shown, following = page_of(connection, [query], cursor=cursor, limit=limit)
    rows = connection.execute(
        select(tables.audit).where(columns.sequence.in_(shown)).order_by(columns.sequence.desc())
    )
    return AuditPage(items=tuple(_entry_from_row(row) for row in rows), next_cursor=following)


def _entry_from_row(row: Row[Any]) -> AuditEntry:
    return AuditEntry(
        sequence=row.sequence,
        at=row.at,
        user=row.user,
        role=row.role,
        door=row.door,
        token_id=row.token_id,
        address=row.address,
        action=row.action,
        detail=row.detail,
        made=row.made,
        status=row.status,
    )
