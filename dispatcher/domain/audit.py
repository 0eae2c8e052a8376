"""The audit log: who changed what, when, from where, and what came of it; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One request that was to change something."""

    #: Grows with each.
    sequence: int
    #: In seconds since the epoch.
    at: float
    user: str
    role: str
    door: str
    #: "" without a token of ours.
    token_id: str
    #: Where it came from: an address, or "local" for the Unix socket.
    address: str
    #: The method and the path.
    action: str
    #: What was asked for, in a few words, "" where the action says it all; nothing secret.
    detail: str = ""
    #: The id of what it made, "" for nothing.
    made: str = ""
    #: The HTTP status of the answer, None while there is none, as after a crash in between.
    status: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries to list; "" and None mean any; `until` is not included."""

    user: str = ""
    token_id: str = ""
    since: float | None = None
    until: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPage:
    """One page of entries, newest first; `next_cursor` is None on the last."""

    items: tuple[AuditEntry, ...]
    next_cursor: str | None
