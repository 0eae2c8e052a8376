"""What is sent to a server, and whether it is sent again: decided here, for both rims.

Theory of operation. A call says whether a repeat of it can do harm (`Repeatable`). A try of it ends
in one of four ways: an answer was `Received`, whole; the server was `NotReached`, so that nothing
was done; or the request went out and the `AnswerLost`, so that nobody knows; or the URL has the
`WrongScheme`, which no repeat mends. `next_step` makes of that what comes next: it is done, it has
failed, or it is sent again after a pause.

- What was not received is repeated, unless a repeat might do something twice: only what changes
  nothing, and creates with an idempotency key, which the server carries out once.
- The same holds for an outcome that the server itself does not know yet, and for a gateway that
  lost the answer. A repeated create keeps its key, or it would be another one.
- 429, and 503 with Retry-After, say that nothing was done, so that every call is repeated, and no
  sooner than the server wants. What it may want is capped: a caller is not put to sleep for a day.
- Pauses double, and jitter is only ever added: clients that were refused together do not come back
  together, and none comes back early. The number of repeats is bounded, so that every call ends.

It does no I/O, reads no clock and throws no dice: `dice` is handed in, from 0 to 1.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, assert_never
from urllib.parse import urlencode

from longshore.dispatcher.client.errors import (
    ClientError,
    LostAnswerError,
    OutcomeUnknownError,
    RateLimitedError,
    UnavailableError,
    UnexpectedAnswerError,
    UnreachableError,
    refusal,
)

Query = Sequence[tuple[str, str]]

MAX_BODY_BYTES = 256 * 1024 * 1024
"""An answer of more than this is cut off, and so is none."""


class Repeatable(Enum):
    """What a repeat of a call may do."""

    #: It changes nothing.
    SAFE = "safe"
    #: It has an idempotency key: the server does the work once, however often it comes.
    KEYED = "keyed"
    #: It may change something again.
    ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One request, however often it is sent."""

    method: str
    path: str
    repeatable: Repeatable
    query: tuple[tuple[str, str], ...] = ()
    #: JSON, None for no body.
    body: bytes | None = None
    #: "" for none.
    idempotency_key: str = ""
    #: The id of the last event that came, "" to hear of events from now on.
    last_event_id: str = ""
    accept: str = "application/json"
    #: Statuses that are answers beside those from 200 to 299.
    also: tuple[int, ...] = ()

    @property
    def target(self) -> str:
        """Return the path with its query."""
        return self.path + (f"?{urlencode(self.query)}" if self.query else "")

    def headers(self, token: str) -> dict[str, str]:
        """Return what is sent with it; `token` is "" for none."""
        # Bytes are counted where a stream is taken up again, so they come as they are.
        told = {"Accept": self.accept, "Accept-Encoding": "identity"}
        if self.body is not None:
            told["Content-Type"] = "application/json"
        if token:
            told["Authorization"] = f"Bearer {token}"
        if self.idempotency_key:
            told["Idempotency-Key"] = self.idempotency_key
        if self.last_event_id:
            told["Last-Event-ID"] = self.last_event_id
        return told


def encoded(body: object) -> bytes:
    """Return a body as JSON; raises `ValueError` or `TypeError` for what JSON cannot say."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


# ---- how a try ended -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """An answer, whole; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def retry_after_s(self) -> float | None:
        """Return what Retry-After says in seconds, None where it says nothing, or a date."""
        text = self.headers.get("retry-after", "").strip()
        return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotReached:
    """Nothing was sent: `cause` says why, `remedy` what to do, "" for the usual."""

    cause: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLost:
    """It was sent, and its answer did not come, or not in time (`late`)."""

    late: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongScheme:
    """Nothing was done: the URL has one scheme, and the server speaks the other one."""

    spoken: Literal["http", "https"]


Failure = NotReached | AnswerLost | WrongScheme
TryOutcome = Received | Failure


# ---- what follows --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatPolicy:
    """How often a call is repeated, and after which pauses.

    With these a call that is refused again and again ends after about 20 s, beside the time that
    its tries take.
    """

    repeats: int = 5
    #: Of these, so many while the server is not even reached.
    repeats_unreached: int = 5
    #: The first pause; each further one is twice as long.
    first_pause_s: float = 0.5
    #: No pause is longer, whatever Retry-After says.
    longest_pause_s: float = 30.0
    #: Up to this share of a pause is added to it.
    jitter: float = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The call is done."""

    received: Received


@dataclass(frozen=True, slots=True, kw_only=True)
class GaveUp:
    """The call has failed: `error` is to be raised."""

    error: ClientError


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAgain:
    """The same call is to be sent after a pause."""

    after_s: float


Step = Answered | GaveUp | SendAgain


def next_step(
    call: ApiCall,
    outcome: TryOutcome,
    *,
    url: str,
    repeated: int,
    policy: RepeatPolicy,
    dice: float,
) -> Step:
    """Return what follows from how a try of a call ended.

    `url` is what the server is called in errors, `repeated` how often the call was sent again
    before, `dice` a number from 0 to 1.
    """
    match outcome:
        case Received(status=status) if 200 <= status < 300 or status in call.also:
            return Answered(received=outcome)
        case Received(status=status, body=body):
            error = refusal(url, status, body, retry_after_s=outcome.retry_after_s)
        case NotReached(cause=cause, remedy=remedy):
            error = unreachable(url, cause, remedy)
        case AnswerLost(late=late):
            error = lost(url, late=late)
        case WrongScheme(spoken=spoken):
            return GaveUp(error=wrong_scheme(url, spoken))
        case _:
            assert_never(outcome)
    if repeated >= _most_repeats(error, call.repeatable, policy):
        error.idempotency_key = call.idempotency_key
        return GaveUp(error=error)
    return SendAgain(after_s=_pause_s(error.retry_after_s, repeated, policy, dice))


def _most_repeats(error: ClientError, repeatable: Repeatable, policy: RepeatPolicy) -> int:
    """Return how often a call may be repeated that ended so."""
    does_no_harm = repeatable is not Repeatable.ONCE
    match error:
        case LostAnswerError() | OutcomeUnknownError():
            may = does_no_harm
        case UnexpectedAnswerError():
            may = does_no_harm and error.in_doubt
        case UnreachableError():
            return policy.repeats_unreached
        case RateLimitedError() | UnavailableError():
            may = error.retry_after_s is not None
        case _:
            may = False
    return policy.repeats if may else 0


def _pause_s(
    retry_after_s: float | None, repeated: int, policy: RepeatPolicy, dice: float
) -> float:
    own_s = policy.first_pause_s * 2.0**repeated
    pause_s = min(policy.longest_pause_s, max(own_s, retry_after_s or 0.0))
    return pause_s * (1.0 + policy.jitter * dice)


def may_be_tls(url: str, outcome: TryOutcome, repeated: int) -> bool:
    """Return whether a try may have ended so since the server speaks TLS, and `url` is http.

    Asked of the first try only: what was understood once is not that.
    """
    if repeated or not url.startswith("http:"):
        return False
    match outcome:
        case AnswerLost(late=late):
            return not late
        case Received(status=status, body=body):
            # Some say in words of their own that they want TLS.
            return status == 400 and isinstance(refusal(url, status, body), UnexpectedAnswerError)
        case NotReached() | WrongScheme():
            return False
        case _:
            assert_never(outcome)


BY_URL = "url= or LONGSHORE_URL"
"""How the URL is said, which remedies name."""
START_IT = f"Start it with 'longshore serve', or name another with {BY_URL}"


def unreachable(url: str, cause: str, remedy: str = "") -> UnreachableError:
    """Return what is raised when nothing could be sent to a server."""
    return UnreachableError(f"cannot reach the server at {url}: {cause}", remedy=remedy or START_IT)


def wrong_scheme(url: str, spoken: Literal["http", "https"]) -> UnreachableError:
    """Return what is raised when a server speaks TLS and its URL is http, or the other way."""
    right = f"{spoken}://{url.partition('://')[2]}"
    match spoken:
        case "https":
            sentence = f"the server at {url} speaks TLS, but its URL begins with http"
            remedy = (
                f"Set {BY_URL} to {right}; if this machine does not trust the server's"
                " certificate, set LONGSHORE_CA_FILE to that of its authority"
            )
        case "http":
            sentence = f"the server at {url} does not speak TLS, but its URL begins with https"
            remedy = (
                f"Set {BY_URL} to {right} if nobody can listen in between, or give the server a"
                " certificate (tls in its configuration)"
            )
        case _:
            assert_never(spoken)
    return UnreachableError(sentence, remedy=remedy)


def lost(url: str, *, late: bool) -> LostAnswerError:
    """Return what is raised when an answer does not come, or breaks off."""
    sentence = f"no answer from {url} in time" if late else f"the connection to {url} broke"
    return LostAnswerError(sentence, remedy="Try again")
