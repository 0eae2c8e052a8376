"""The JSON of tokens, of who one is, and of the audit log."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from longshore.dispatcher.api.schemas.containers import Moment, Request
from longshore.dispatcher.api.schemas.reading import NEVER_ABSENT
from longshore.dispatcher.api.schemas.words import in_order

_Role = Literal["user", "lead", "admin", "metrics"]
RoleWord = Annotated[_Role, in_order(_Role, "What its holder may do at most.")]
ShortText = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class TokenRequest(Request, frozen=True, kw_only=True):
    """What a token is to be.

    `projects` are for the roles user and lead: what its holder sees. `default_project` is the one
    of what names none, and need not be given where there is one project. Without `expires_at` it is
    good until it is revoked.
    """

    user: ShortText
    role: RoleWord = "user"
    projects: Annotated[list[ShortText], msgspec.Meta(max_length=1000)] = []  # noqa: RUF012 - msgspec copies it
    default_project: Annotated[str, msgspec.Meta(max_length=100)] = ""
    name: Annotated[str, msgspec.Meta(max_length=100)] = ""
    expires_at: Moment | None = None


class TokenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A token, without its text.

    `last_used_at` is written once a minute at most, and null for never; `expires_at` is null for
    one that is good until it is revoked.
    """

    id: Annotated[str, NEVER_ABSENT]
    name: str
    user: str
    role: str
    projects: tuple[str, ...]
    default_project: str
    state: Annotated[
        str, msgspec.Meta(extra_json_schema={"enum": ["active", "expired", "revoked"]})
    ]
    created_at: str | None
    created_by: str
    expires_at: str | None
    revoked_at: str | None
    revoked_by: str | None
    last_used_at: str | None


class NewTokenAnswer(TokenAnswer, frozen=True, kw_only=True):
    """A new token; `token` is its text, which is told this once."""

    token: str


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of tokens, by id; `next_cursor` is null on the last."""

    items: tuple[TokenAnswer, ...]
    next_cursor: str | None


class RevokeRequest(Request, frozen=True, kw_only=True):
    """Nothing is to be said about a token that is revoked."""


class CallerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Who one is to the server; an admin sees every project, whatever `projects` says.

    `door` is what vouches for one; `token` is the id of a token of the server's own, null without.
    """

    user: Annotated[str, NEVER_ABSENT]
    role: str
    projects: tuple[str, ...]
    default_project: str
    door: str
    token: str | None
    until: str | None


class AuditEntryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was to change something.

    `made` is the id of what it made, null for nothing; `status` is that of the answer, null where
    the server ended in between, and nobody wrote down what came of it.
    """

    number: Annotated[int, NEVER_ABSENT]
    at: str | None
    user: str
    role: str
    door: str
    token: str | None
    address: str
    action: str
    detail: str
    made: str | None
    status: int | None


class AuditList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the audit log, newest first; `next_cursor` is null on the last."""

    items: tuple[AuditEntryAnswer, ...]
    next_cursor: str | None
