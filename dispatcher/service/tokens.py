"""Tokens: made, listed, revoked, and known again when somebody shows one.

All of them are in memory, by id, so that nobody waits for the store to be let in. What changes is
committed first, and only then counts: a token that was shown is there after any crash, and one that
was revoked stays so.

One that was revoked or has expired is forgotten after a while, here and by the upkeep of the store:
so tokens that are made each day for a day each do not use up what there may be.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

import structlog

from longshore.dispatcher.domain.cursors import decode_cursor, encode_cursor
from longshore.dispatcher.domain.messages import Change, InsertToken, NoteTokenUse, SaveToken
from longshore.dispatcher.domain.principals import PROJECTS_MOST, Principal, Role
from longshore.dispatcher.domain.timefmt import moment
from longshore.dispatcher.domain.tokens import (
    ENDED_KEPT_S,
    SECRET_BYTES,
    Token,
    TokenState,
    digest_of,
    id_in,
    text_of,
)
from longshore.dispatcher.service.contracts import Conflict, KeyReused, NotFound, Unavailable
from longshore.dispatcher.store.errors import (
    IdempotencyConflict,
    IdempotentRepeat,
    StoreBusy,
    StoreClosed,
    StoreError,
)
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import InvalidRequest

TOKENS_MOST = 100_000
"""How many there may be, also expired and revoked ones: all of them are in memory."""
FORGET_EACH_S = 3600.0
"""How often those are looked for that ended long ago."""
USE_NOTED_EACH_S = 60.0
_ID_BYTES = 5
_AFTER = "tokens"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """What a token is to be; `projects` are sorted, `expires_at` is in seconds since the epoch."""

    name: str
    user: str
    role: Role
    projects: tuple[str, ...]
    #: "" for the only project there is, or for "default" where the role needs none.
    default_project: str
    expires_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPage:
    """One page of tokens, by id; `next_cursor` is None on the last."""

    items: tuple[Token, ...]
    next_cursor: str | None


class TokenService:
    """The tokens of one server; used on the loop's thread.

    `random_bytes` gives so many bytes that nobody guesses.
    """

    def __init__(
        self,
        *,
        store: Store,
        known: Iterable[Token],
        now: Callable[[], float],
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._store = store
        self._now = now
        self._random_bytes = random_bytes
        self._tokens = {each.id: each for each in known}
        #: In order.
        self._ids = sorted(self._tokens)
        self._forgot_at = -math.inf
        #: Called with the id of a token that lets nobody in any more; None for nobody.
        self.on_revoked: Callable[[str], None] | None = None

    def state_of(self, token: Token) -> TokenState:
        """Return whether a token lets anybody in now."""
        return token.state(self._now())

    def active(self) -> int:
        """Return how many let somebody in."""
        return sum(self.state_of(each) is TokenState.ACTIVE for each in self._tokens.values())

    async def create(
        self,
        wanted: NewToken,
        *,
        caller: Principal,
        idempotency_key: str = "",
        fingerprint: str = "",
    ) -> tuple[Token, str]:
        """Commit a new token; return it and its text, which nobody can be told again.

        Raises `InvalidRequest` with all that is wrong, `Conflict` when there are too many, and for
        a request that was carried out before, `KeyReused` when its key was another's, `Unavailable`
        when nothing can be written now.
        """
        if problems := _problems(wanted, self._now()):
            raise InvalidRequest(problems)
        self._forget_ended()
        if len(self._tokens) >= TOKENS_MOST:
            raise Conflict(
                f"there are {TOKENS_MOST} tokens, the most there may be: they go"
                f" {ENDED_KEPT_S / 86400:.0f} days after they were revoked or have expired"
            )
        token_id = f"t-{self._random_bytes(_ID_BYTES).hex()}"
        text = text_of(token_id, self._random_bytes(SECRET_BYTES))
        token = Token(
            id=token_id,
            name=wanted.name,
            user=wanted.user,
            role=wanted.role,
            projects=wanted.projects,
            default_project=_default_of(wanted),
            digest=digest_of(text),
            created_at=self._now(),
            created_by=caller.user,
            expires_at=wanted.expires_at,
        )
        change = InsertToken(
            token=token,
            user=caller.key_scope,
            idempotency_key=idempotency_key,
            fingerprint=fingerprint,
        )
        try:
            await self._commit(change)
        except IdempotentRepeat as repeat:
            made = repeat.container_ids[0]
            raise Conflict(
                f"this request made token {made} before, and its text is told once: revoke that"
                " one, and make another with a new key"
            ) from repeat
        except IdempotencyConflict as conflict:
            raise KeyReused(str(conflict)) from conflict
        self._tokens[token.id] = token
        insort(self._ids, token.id)
        return token, text

    async def revoke(self, token_id: str, *, caller: Principal) -> Token:
        """Commit that a token lets nobody in any more; return it. Again is no error.

        Raises `NotFound`, `Unavailable`.
        """
        revoked = self.token(token_id)
        if revoked.revoked_at is None:
            revoked = replace(revoked, revoked_at=self._now(), revoked_by=caller.user)
        # At once, and whatever becomes of the commit: who revokes fears for what it lets in. One
        # that is revoked already is written again, as that commit may have failed.
        self._tokens[token_id] = revoked
        if self.on_revoked is not None:
            self.on_revoked(token_id)
        await self._commit(SaveToken(token=revoked))
        return revoked

    def token(self, token_id: str) -> Token:
        """Return one token, whatever its state; raises `NotFound`."""
        found = self._tokens.get(token_id)
        if found is None:
            raise NotFound(f"there is no token {token_id}")
        return found

    def tokens(self, *, user: str, state: TokenState | None, cursor: str, limit: int) -> TokenPage:
        """Return a page of tokens, by id, of a `user` ("": any) and in a `state` (None: any).

        Raises `InvalidRequest` for a cursor that is not ours.
        """
        self._forget_ended()
        first = bisect_right(self._ids, decode_cursor(_AFTER, cursor)) if cursor else 0
        behind = (self._tokens[each] for each in islice(self._ids, first, None))
        wanted = (
            each
            for each in behind
            if user in ("", each.user) and state in (None, self.state_of(each))
        )
        found = tuple(islice(wanted, limit + 1))
        shown = found[:limit]
        more = len(found) > limit
        return TokenPage(
            items=shown, next_cursor=encode_cursor(_AFTER, shown[-1].id) if more else None
        )

    def holder(self, text: str) -> Principal | str:
        """Return who holds the token with this text, or why that lets nobody in, in a sentence."""
        found = self._tokens.get(id_in(text))
        if found is None or not found.is_of(text):
            return "This server knows no such token."
        match self.state_of(found):
            case TokenState.REVOKED:
                return f"The token {found.id} was revoked: ask an admin for another."
            case TokenState.EXPIRED:
                until = moment(found.expires_at or 0.0)
                return f"The token {found.id} expired at {until}: ask an admin for another."
            case TokenState.ACTIVE:
                self._note_use(found)
                return found.principal()

    def _forget_ended(self) -> None:
        """Forget those that the store's upkeep takes away too."""
        now = self._now()
        # Also when the clock was set back meanwhile.
        if self._forgot_at <= now < self._forgot_at + FORGET_EACH_S:
            return
        self._forgot_at = now
        self._tokens = {n: each for n, each in self._tokens.items() if not each.is_long_over(now)}
        self._ids = sorted(self._tokens)

    def _note_use(self, token: Token) -> None:
        now = self._now()
        if token.last_used_at is not None and now < token.last_used_at + USE_NOTED_EACH_S:
            return
        self._tokens[token.id] = replace(token, last_used_at=now)
        try:
            self._store.write([NoteTokenUse(token_id=token.id, at=now)])
        except (StoreBusy, StoreClosed) as error:
            # The next use is written: nobody is kept waiting for this.
            _log.debug("token_use_not_noted", token=token.id, why=str(error))

    async def _commit(self, change: Change) -> None:
        try:
            await asyncio.wrap_future(self._store.write([change]))
        except (IdempotentRepeat, IdempotencyConflict):
            raise
        except StoreError as error:
            raise Unavailable(str(error)) from error


def _problems(wanted: NewToken, now: float) -> list[tuple[str, str]]:
    problems = []
    has_projects = wanted.role in (Role.USER, Role.LEAD)
    if has_projects and not wanted.projects:
        said = f"are none: a {wanted.role.value} sees nothing without a project"
        problems.append(("projects", said))
    if not has_projects and wanted.projects:
        said = f"are not for the role {wanted.role.value}: leave them out"
        problems.append(("projects", said))
    if len(wanted.projects) > PROJECTS_MOST:
        problems.append(("projects", f"are more than {PROJECTS_MOST}: name fewer"))
    if has_projects and wanted.default_project not in ("", *wanted.projects):
        problems.append(("default_project", "must be one of the projects"))
    if has_projects and len(wanted.projects) > 1 and not wanted.default_project:
        said = "must be given where there are several projects: it is the one that nobody names"
        problems.append(("default_project", said))
    if wanted.expires_at is not None and wanted.expires_at <= now:
        problems.append(("expires_at", "is over already: name a moment to come"))
    return problems


def _default_of(wanted: NewToken) -> str:
    if wanted.default_project:
        return wanted.default_project
    return wanted.projects[0] if wanted.projects else "default"
