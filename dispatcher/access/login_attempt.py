"""One browser on its way to the issuer and back: what it takes along, and what must come back.

Three words are thrown for each browser that begins to log in, and kept by that browser alone, in a
cookie. The *state* goes to the issuer and must come back: who has no cookie, or one with another
state, was sent here by somebody else (CSRF; RFC 9700, 4.7). The *nonce* goes to the issuer and must
stand in the ID token: a token or a code that was made for another browser is none here (RFC 9700,
4.5). Of the *verifier* the issuer gets the hash at first (PKCE, S256; RFC 7636) and the word itself
with the code, from this server: who takes the code on its way can do nothing with it.

Who the issuer says it is must be who this browser was sent to (RFC 9207), where it says so. That a
code is good once is for the issuer to see to; the browser forgets its three words as it comes back.

All of this is pure; the dice are handed in.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longshore.dispatcher.access.claimed import Denial, DenialKind

_WORD_BYTES = 32
_WORD_CHARACTERS = 43
_CODE_CHARACTERS_MOST = 8 * 1024
_TOLD_CHARACTERS = 200
_PARAMETERS = ("code", "state", "iss", "error", "error_description")
_OTHER_STATE = (
    "What came back from the issuer belongs to another login than this browser's last one: another"
    " tab has begun one since, or somebody else sent you here."
)
_OTHER_ISSUER = "What came back is not from the issuer that this browser was sent to."
_TWICE = "What came back from the issuer can be read in several ways."
_NOTHING = "What came back from the issuer has neither a code nor an error."
_NO_NONCE = "The ID token that the issuer gave was made for another login than this browser's."
_OTHER_CLIENT = "The ID token that the issuer gave was made for another program than this server."


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAttempt:
    """What a browser takes along; each is 43 characters that nobody can guess."""

    state: str
    nonce: str
    verifier: str

    @property
    def text(self) -> str:
        """Return it as its cookie has it."""
        return f"{self.state}.{self.nonce}.{self.verifier}"

    @property
    def challenge(self) -> str:
        """Return what the issuer gets of the verifier at first (RFC 7636, S256)."""
        return _word(hashlib.sha256(self.verifier.encode()).digest())


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What a browser came back with; "" for what is not there."""

    code: str = ""
    state: str = ""
    iss: str = ""
    error: str = ""
    error_description: str = ""


def new_attempt(random_bytes: Callable[[int], bytes]) -> LoginAttempt:
    """Return one that nobody can guess."""
    state, nonce, verifier = (_word(random_bytes(_WORD_BYTES)) for _ in range(3))
    return LoginAttempt(state=state, nonce=nonce, verifier=verifier)


def read_attempt(text: str) -> LoginAttempt | None:
    """Return what a cookie says, None for what is none."""
    words = text.split(".")
    if len(words) != 3 or any(len(each) != _WORD_CHARACTERS for each in words):
        return None
    state, nonce, verifier = words
    return LoginAttempt(state=state, nonce=nonce, verifier=verifier)


def code_returned(
    values_of: Callable[[str], Sequence[str]],
    attempt: LoginAttempt,
    *,
    issuer: str,
    says_who: bool,
) -> str | Denial:
    """Return the code that a browser came back with, or why it is none of this login's.

    `values_of` gives the values of a parameter; `attempt` is what the browser took along;
    `says_who` tells that the issuer always says who it is.
    """
    told = {name: list(values_of(name)) for name in _PARAMETERS}
    if any(len(values) > 1 for values in told.values()):
        return _malformed(_TWICE)
    back = Returned(**{name: values[0] for name, values in told.items() if values})
    if not _same(back.state, attempt.state):
        return _malformed(_OTHER_STATE)
    if (back.iss or says_who) and back.iss != issuer:
        return _malformed(_OTHER_ISSUER)
    if back.error:
        return _refused(back)
    if not back.code or len(back.code) > _CODE_CHARACTERS_MOST:
        return _malformed(_NOTHING)
    return back.code


def token_problem(claims: dict[str, object], attempt: LoginAttempt, client_id: str) -> str:
    """Return why an ID token that is good is not this login's, in a sentence, "" where it is."""
    nonce = claims.get("nonce")
    if not isinstance(nonce, str) or not _same(nonce, attempt.nonce):
        return _NO_NONCE
    return _OTHER_CLIENT if claims.get("azp", client_id) != client_id else ""


def _refused(back: Returned) -> Denial:
    """Return what an issuer says that let nobody in."""
    if back.error == "access_denied":
        said = "The issuer did not let you log in, or you did not want to"
    else:
        said = f"The issuer let nobody log in, and calls it {_shown(back.error)}"
    if back.error_description:
        said += f": {_shown(back.error_description)}"
    return Denial(kind=DenialKind.NO_RIGHT, sentence=f"{said.rstrip('.')}.")


def _shown(text: str) -> str:
    """Return a text of the issuer's so that it can stand in a sentence."""
    return "".join(each if each.isprintable() else " " for each in text[:_TOLD_CHARACTERS])


def _same(one: str, other: str) -> bool:
    """Return whether two words are the same, in a time that does not tell how much of them is."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))


def _word(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _malformed(sentence: str) -> Denial:
    return Denial(kind=DenialKind.MALFORMED, sentence=sentence)
