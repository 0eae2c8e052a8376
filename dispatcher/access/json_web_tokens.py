"""What a JSON Web Token says, once it is known to be an issuer's and for this server; pure.

What must hold (RFC 8725): an algorithm of the list, which has neither "none" nor a symmetric one,
since keys that everybody can fetch would then sign; a key that the issuer lists, which is found by
its id and never taken from the token; the issuer and the audience that are configured; a time to
expire that has not come, and no beginning that is still to come. Tokens of other kinds (for logging
out, say) are signed with the same keys and are none.

A token need not name its key where the issuer lists a single one; with several it must.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

from joserfc import jws, jwt
from joserfc.errors import BadSignatureError, ExpiredTokenError, JoseError
from joserfc.jwk import KeySet

from longshore.dispatcher.access.claimed import Denial, DenialKind

ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "Ed25519", "Ed448", "EdDSA"),
)
LEEWAY_S = 30
"""By how much the clocks of issuer and server may differ."""
_TYPES = frozenset({"jwt", "at+jwt"})
_SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*")
_LATEST = 253402300799.0
"""The end of the year 9999: no stream goes on for longer."""


class KeyWanted(Enum):
    """Why a token cannot be judged by the keys that are known."""

    #: They do not have the one that it names, or that can have signed it.
    ANOTHER = "another"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """What an issuer says; its right to ask ends at `until`, in seconds since the epoch."""

    claims: dict[str, Any]
    until: float


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerTerms:
    """Whose tokens for whom are taken."""

    issuer: str
    audience: str


class _Registry(jws.JWSRegistry):
    """joserfc's, with the older name that most issuers give Ed25519 (RFC 8037, RFC 9864)."""

    def get_alg(self, name: str) -> Any:
        return super().get_alg("Ed25519" if name == "EdDSA" else name)


# A header that one does not know is ignored (RFC 7515, 4), unless it says that it is critical.
REGISTRY = _Registry(algorithms=ALGORITHMS, strict_check_header=False)


def looks_like_jwt(text: str) -> bool:
    """Return whether a text has the shape of a JSON Web Token, which no token of ours has."""
    return _SHAPE.fullmatch(text) is not None


def header_problem(text: str) -> str:
    """Return why no key could ever make a token good, in a sentence, "" where one could."""
    try:
        header = jws.extract_compact(text.encode(), registry=REGISTRY).headers()
        if header.get("alg") not in ALGORITHMS:
            return "This token is not signed in a way that this server takes: ask for another."
        REGISTRY.check_header(header)
        kind = str(header.get("typ", "JWT")).lower().removeprefix("application/")
    except (JoseError, ValueError, TypeError, RecursionError):
        return "This is no JSON Web Token that can be read: get one from the issuer."
    if kind not in _TYPES:
        return "This token is of a kind that lets nobody in: get an access or ID token."
    return ""


def judge_token(
    text: str, keys: KeySet, terms: IssuerTerms, now: float
) -> Signed | Denial | KeyWanted:
    """Return what a token says whose header has no problem, or why it is worthless.

    `now` is in seconds since the epoch. `KeyWanted` where another key could make it good.
    """
    try:
        if not _has_key(text, keys):
            return KeyWanted.ANOTHER
        claims = jwt.decode(text, keys, registry=REGISTRY).claims
    except BadSignatureError:
        if _key_id(text):
            return _worthless("The signature of this token is not the issuer's: get another.")
        return KeyWanted.ANOTHER
    except (JoseError, ValueError, TypeError, RecursionError):
        return _worthless("This token does not go with the keys of the issuer: get another.")
    return _checked(claims, terms, now)


def _checked(claims: dict[str, Any], terms: IssuerTerms, now: float) -> Signed | Denial:
    registry = jwt.JWTClaimsRegistry(
        now=int(now),
        leeway=LEEWAY_S,
        iss={"essential": True, "value": terms.issuer},
        aud={"essential": True, "value": terms.audience},
        exp={"essential": True},
    )
    try:
        registry.validate(claims)
        until = float(min(claims["exp"] + LEEWAY_S, _LATEST))
    except ExpiredTokenError:
        return _worthless("This token has expired: get another from the issuer.")
    except JoseError as error:
        named = str(getattr(error, "claim", "") or "")
        claim = named if named in {"iss", "aud", "exp", "nbf", "iat"} else "a claim"
        return _worthless(
            f"This token is not for this server, or not yet: {claim} is missing or another than it"
            " must be."
        )
    return Signed(claims=claims, until=until)


def _has_key(text: str, keys: KeySet) -> bool:
    key_id = _key_id(text)
    if key_id:
        return any(each.kid == key_id for each in keys)
    return len(keys.keys) == 1


def _key_id(text: str) -> str:
    """Return the id of the key that a token names, "" for none."""
    found = jws.extract_compact(text.encode(), registry=REGISTRY).headers().get("kid")
    return found if isinstance(found, str) else ""


def _worthless(sentence: str) -> Denial:
    return Denial(kind=DenialKind.WORTHLESS, sentence=sentence)
