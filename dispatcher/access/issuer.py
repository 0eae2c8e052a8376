"""Who holds a JSON Web Token of the OpenID Connect issuer.

Three questions in turn: whether a token could be good at all (`json_web_tokens`), for which no key
is needed; whether the issuer signed it, for which its keys may have to be fetched (`issuer_keys`);
and what the role and the projects of who holds it are, which its claims say as configured. A token
that is good and gives no role lets nobody in: what an issuer knows people for is not this server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, assert_never

from longshore.dispatcher.access.claimed import Claimed, Denial, DenialKind, principal_of
from longshore.dispatcher.access.issuer_keys import (
    RETRY_S,
    IssuerAnswer,
    IssuerEndpoints,
    IssuerKeys,
)
from longshore.dispatcher.access.json_web_tokens import (
    IssuerTerms,
    KeyWanted,
    Signed,
    header_problem,
    judge_token,
)
from longshore.dispatcher.config.model import IssuerConfig
from longshore.dispatcher.domain.principals import Door, Principal, Role

_BY_GREATNESS = (Role.ADMIN, Role.LEAD, Role.USER, Role.METRICS)


class Issuer:
    """The issuer of a configuration that has one; used on the loop's thread.

    `now` gives seconds since the epoch, `clock` those of a clock that never goes back.
    """

    def __init__(
        self, config: IssuerConfig, *, now: Callable[[], float], clock: Callable[[], float]
    ) -> None:
        self._config = config
        self._terms = IssuerTerms(issuer=config.url, audience=config.audience)
        self._now = now
        self._keys = IssuerKeys(config.url, clock=clock)

    async def holder(self, text: str) -> Principal | Denial:
        """Return who holds a token, or why it lets nobody in; waits for the issuer if it must."""
        found = await self.signed(text)
        return found if isinstance(found, Denial) else caller_in(found, self._config)

    async def signed(self, text: str) -> Signed | Denial:
        """Return what a token says, whoever holds it, or why it is none; waits as `holder` does."""
        if why := header_problem(text):
            return Denial(kind=DenialKind.WORTHLESS, sentence=why)
        await self._keys.freshen()
        verdict = judge_token(text, self._keys.known, self._terms, self._now())
        if isinstance(verdict, KeyWanted):
            await self._keys.fetch()
            verdict = judge_token(text, self._keys.known, self._terms, self._now())
        match verdict:
            case KeyWanted():
                return self._without_key()
            case Denial() | Signed():
                return verdict
            case _:
                assert_never(verdict)

    async def freshened(self) -> IssuerEndpoints:
        """Return where browsers log in; waits for the issuer if it must."""
        await self._keys.freshen()
        return self._keys.endpoints

    @property
    def endpoints(self) -> IssuerEndpoints:
        """Return where browsers log in, as far as that is known."""
        return self._keys.endpoints

    def problem(self) -> str:
        """Return why its keys cannot be had, with what to do about it, "" where they can."""
        why = self._keys.why_away
        if not why:
            return ""
        if self._keys.known.keys:
            told = "who has a token with a key that is known still comes in, and nobody else by it"
        else:
            told = "nobody comes in by it"
        return (
            f"the issuer {self._config.url} gives no keys, so that {told}: {why}; see that it runs,"
            f" that this machine reaches it, and that auth.issuer.url is right (it is asked again"
            f" every {RETRY_S:g} s)"
        )

    async def keep_fresh(self, *, look_each_s: float = RETRY_S) -> None:
        """Ask the issuer from now on, until it is cancelled, also while nobody comes by it.

        `look_each_s` is how long it waits between two looks at whether that is to be done.
        """
        await self._keys.keep_fresh(look_each_s=look_each_s)

    async def close(self) -> None:
        """End what goes on."""
        await self._keys.close()

    def _without_key(self) -> Denial:
        match self._keys.last:
            case IssuerAnswer.AWAY | IssuerAnswer.NOT_ASKED:
                said = (
                    "The issuer does not answer, and without its keys nobody can tell whether this"
                    f" token is good: come again in {RETRY_S:g} s, or use a token of the server's"
                    " own."
                )
                return Denial(kind=DenialKind.UNDECIDED, sentence=said)
            case IssuerAnswer.GIVEN:
                said = (
                    "This token is signed with a key that the issuer does not publish: get another,"
                    f" or come again in {RETRY_S:g} s if the issuer has just changed its keys."
                )
                return Denial(kind=DenialKind.WORTHLESS, sentence=said)
            case _:
                assert_never(self._keys.last)


def caller_in(signed: Signed, config: IssuerConfig) -> Principal | Denial:
    """Return who holds a token that is good, or why it gives no right to ask."""
    names = config.claims
    user = claim_at(signed.claims, names.user)
    if not isinstance(user, str):
        said = f"This token has no text as {names.user}, which is to say who you are."
        return Denial(kind=DenialKind.NO_RIGHT, sentence=said)
    given = {
        config.roles[each] for each in _words_at(signed.claims, names.role) & set(config.roles)
    }
    role = next((each for each in _BY_GREATNESS if each in given), config.default_role)
    if role is None:
        said = f"Nothing that this token has as {names.role} gives you a role here: ask an admin."
        return Denial(kind=DenialKind.NO_RIGHT, sentence=said)
    prefix = config.project_prefix
    projects = tuple(
        each.removeprefix(prefix)
        for each in sorted(_words_at(signed.claims, names.projects))
        if each.startswith(prefix)
    )
    claimed = Claimed(user=user, role=role, projects=projects)
    return principal_of(claimed, door=Door.ISSUER, until=signed.until)


def claim_at(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim at a path, None for none.

    A dot leads into a nested claim where it is no part of a name: names may have dots.
    """
    if path in claims:
        return claims[path]
    cuts = [index for index, each in enumerate(path) if each == "."]
    for cut in reversed(cuts):
        inner = claims.get(path[:cut])
        if isinstance(inner, Mapping) and (found := claim_at(inner, path[cut + 1 :])) is not None:
            return found
    return None


def _words_at(claims: Mapping[str, Any], path: str) -> set[str]:
    """Return the texts of a claim, which is one or a list; what is no text is none of them."""
    found = claim_at(claims, path) if path else None
    listed = found if isinstance(found, list) else [found]
    return {each for each in listed if isinstance(each, str)}
