"""From tokens, callers and the audit log to the JSON of the API."""

from __future__ import annotations

from typing import Any

from longshore.dispatcher.api.render.values import rfc3339
from longshore.dispatcher.api.schemas.tokens import (
    AuditEntryAnswer,
    CallerAnswer,
    NewTokenAnswer,
    TokenAnswer,
)
from longshore.dispatcher.domain.audit import AuditEntry
from longshore.dispatcher.domain.principals import Principal
from longshore.dispatcher.domain.tokens import Token, TokenState


def token_answer(token: Token, state: TokenState) -> TokenAnswer:
    """Return a token as it is answered, without its text."""
    return TokenAnswer(**_fields(token, state))


def new_token_answer(token: Token, state: TokenState, text: str) -> NewTokenAnswer:
    """Return a new token as it is answered, with its text."""
    return NewTokenAnswer(**_fields(token, state), token=text)


def _fields(token: Token, state: TokenState) -> dict[str, Any]:
    return {
        "id": token.id,
        "name": token.name,
        "user": token.user,
        "role": token.role.value,
        "projects": token.projects,
        "default_project": token.default_project,
        "state": state.value,
        "created_at": rfc3339(token.created_at),
        "created_by": token.created_by,
        "expires_at": rfc3339(token.expires_at),
        "revoked_at": rfc3339(token.revoked_at),
        "revoked_by": token.revoked_by or None,
        "last_used_at": rfc3339(token.last_used_at),
    }


def caller_answer(caller: Principal) -> CallerAnswer:
    """Return who a caller is."""
    return CallerAnswer(
        user=caller.user,
        role=caller.role.value,
        projects=caller.projects,
        default_project=caller.default_project,
        door=caller.door.value,
        token=caller.token_id or None,
        until=rfc3339(caller.until),
    )


def audit_entry_answer(entry: AuditEntry) -> AuditEntryAnswer:
    """Return an entry of the audit log as it is answered."""
    return AuditEntryAnswer(
        number=entry.sequence,
        at=rfc3339(entry.at),
        user=entry.user,
        role=entry.role,
        door=entry.door,
        token=entry.token_id or None,
        address=entry.address,
        action=entry.action,
        detail=entry.detail,
        made=entry.made or None,
        status=entry.status,
    )
