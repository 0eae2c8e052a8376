"""Tokens: what lets somebody in who holds one; pure.

A token is text of which the server keeps a digest only: `lsh_`, by which scanners of secrets know
it, ten characters that are its id, and 256 random bits. Nobody guesses those, so a plain SHA-256 is
all they need: a slow hash is for passwords that people make up, and would cost 200 ms a request.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass
from enum import Enum

from longshore.dispatcher.domain.principals import Door, Principal, Role

SECRET_BYTES = 32
ENDED_KEPT_S = 90 * 86400.0
"""How long one that was revoked or has expired is still told of; then it is forgotten."""
_TEXT = re.compile(r"lsh_([0-9a-z]{10})_([A-Za-z0-9_-]{43})")


class TokenState(Enum):
    """Whether a token lets anybody in."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is kept of a token; times are in seconds since the epoch, None for never."""

    #: "t-" and what its text says.
    id: str
    #: What people call it.
    name: str
    user: str
    role: Role
    #: Sorted, none twice; () for roles that are asked for none.
    projects: tuple[str, ...]
    default_project: str
    #: The SHA-256 of its whole text, in hexadecimal digits.
    digest: str
    created_at: float
    created_by: str
    expires_at: float | None = None
    revoked_at: float | None = None
    #: "" while it is not revoked.
    revoked_by: str = ""
    #: About: it is written once a minute at most.
    last_used_at: float | None = None

    def state(self, now: float) -> TokenState:
        """Return whether it lets anybody in, `now` in seconds since the epoch."""
        if self.revoked_at is not None:
            return TokenState.REVOKED
        if self.expires_at is not None and self.expires_at <= now:
            return TokenState.EXPIRED
        return TokenState.ACTIVE

    def is_long_over(self, now: float) -> bool:
        """Return whether it ended so long ago that it is forgotten, `now` as for `state`."""
        ends = (self.revoked_at, self.expires_at)
        return any(each is not None and each <= now - ENDED_KEPT_S for each in ends)

    def is_of(self, text: str) -> bool:
        """Return whether `text` is this token; how long that takes tells nothing of it."""
        return hmac.compare_digest(digest_of(text), self.digest)

    def principal(self) -> Principal:
        """Return who holds it."""
        return Principal(
            user=self.user,
            role=self.role,
            door=Door.TOKEN,
            projects=self.projects,
            default_project=self.default_project,
            token_id=self.id,
            until=self.expires_at,
        )


def digest_of(text: str) -> str:
    """Return what is kept of the text of a token."""
    return hashlib.sha256(text.encode()).hexdigest()


def text_of(token_id: str, secret: bytes) -> str:
    """Return the text of a token with this id and these `SECRET_BYTES` random bytes."""
    characters = base64.urlsafe_b64encode(secret).decode().rstrip("=")
    return f"lsh_{token_id.removeprefix('t-')}_{characters}"


def id_in(text: str) -> str:
    """Return the id that the text of a token says, "" for what is no token of ours."""
    match = _TEXT.fullmatch(text)
    return f"t-{match.group(1)}" if match is not None else ""
