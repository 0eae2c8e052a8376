"""What the failures of Libcloud and of the clouds behind it mean: one table, from first to last."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import requests
from libcloud.common.exceptions import BaseHTTPError, RateLimitReachedError
from libcloud.common.google import GoogleAuthError, GoogleBaseError, JsonParseError
from libcloud.common.types import InvalidCredsError, LibcloudError, ProviderError
from urllib3.exceptions import NewConnectionError

from longshore.drivers.errors import (
    CapacityError,
    CloudAuthError,
    CloudError,
    ErrorScope,
    InstanceNotFound,
    QuotaError,
    RateLimitError,
)

_LONGEST_TEXT = 400
_REVEALING = re.compile(r"user_?-?data|startup-script|metadata", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFailure:
    """What an exception of Libcloud's tells: a status of HTTP (0: none), a code, a text, a wait."""

    status: int
    code: str
    text: str
    retry_after_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A kind of failure: its statuses (none: any), words in its code or text, what it means."""

    statuses: frozenset[int] = frozenset()
    words: re.Pattern[str] = re.compile("")
    make: Callable[[str, ApiFailure], CloudError]

    def fits(self, failure: ApiFailure) -> bool:
        told = f"{failure.code} {failure.text}"
        return (not self.statuses or failure.status in self.statuses) and bool(
            self.words.search(told)
        )


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


def _rate_limit(message: str, failure: ApiFailure) -> CloudError:
    return RateLimitError(message, retry_after_s=failure.retry_after_s)


# The words stand before the statuses: clouds answer a quota with 403, 413, 422 or inside a 200.
_TABLE = (
    _Row(
        words=_words("rateLimitExceeded", "RATE_LIMIT_EXCEEDED"),
        make=_rate_limit,
    ),
    _Row(
        words=_words(
            "quota[ _]?exceeded",  # OpenStack, GCE
            "will exceed your droplet limit",  # DigitalOcean
            "exceeded.*quota",
            "resource limit exceeded",
        ),
        make=lambda message, _: QuotaError(message, scope=ErrorScope.ALL),
    ),
    _Row(
        words=_words(
            "ZONE_RESOURCE_POOL_EXHAUSTED",  # GCE
            "does not have enough resources",
            "No valid host",  # OpenStack
            "insufficient capacity",
            "size is (currently )?(not available|unavailable|restricted)",  # DigitalOcean
        ),
        make=lambda message, _: CapacityError(message),
    ),
    _Row(statuses=frozenset({429}), make=_rate_limit),
    _Row(statuses=frozenset({413}), words=_words("over ?limit", "retry"), make=_rate_limit),
    _Row(
        statuses=frozenset({401, 403}),
        make=lambda message, _: CloudAuthError(
            f"{message}; mend driver.parameters.key, secret or options, or the account's rights"
        ),
    ),
)


def failure_of(error: BaseException) -> ApiFailure:
    """Return what an exception tells, without what it must not: user data holds a secret."""
    retry_after_s: float | None = None
    status, code = 0, ""
    match error:
        case RateLimitReachedError():
            status, retry_after_s = 429, error.retry_after or None
        case BaseHTTPError():
            status = int(error.code)
            retry_after_s = _seconds((error.headers or {}).get("retry-after"))
        case InvalidCredsError() | GoogleAuthError():
            status = 401
        case ProviderError():
            status = int(error.http_code or 0)
            code = str(getattr(error, "code", None) or "")
        case _:
            status = 0
    return ApiFailure(status=status, code=code, text=_text(error), retry_after_s=retry_after_s)


def fault_of(error: Exception, *, doing: str, of_instance: bool = False) -> CloudError:
    """Return the error of ours that an exception means, which says what was being done.

    Only of a call that names an instance does a status 404 say that there is no such instance.
    """
    failure = failure_of(error)
    what = " ".join(each for each in (failure.code, failure.text) if each)
    message = f"{doing}: {what}"
    for row in _TABLE:
        if row.fits(failure):
            return row.make(message, failure)
    if failure.status == 404 and of_instance:
        return InstanceNotFound(message)
    if failure.status == 404:
        message += "; look at the names in driver.parameters and of the instance type"
    return CloudError(message)


def was_refused(error: Exception) -> bool:
    """Return whether an exception is the cloud's own word that it did not do what was asked.

    Status 5xx is none, nor is 408: what a gateway that gave up had asked for may be done.
    """
    status = failure_of(error).status
    return (400 <= status < 500 and status != 408) or has_failed_since(error)


def has_failed_since(error: Exception) -> bool:
    """Return whether an exception is an answer that tells of a job, taken earlier, that it failed.

    GCE answers so, with status 200.
    """
    told = isinstance(error, GoogleBaseError) and not isinstance(error, JsonParseError)
    return told and failure_of(error).status < 300


def was_never_sent(error: Exception) -> bool:
    """Return whether a request cannot have reached the cloud: there was no connection."""
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return True
    causes = (error, *error.args, *(getattr(each, "reason", None) for each in error.args))
    return any(isinstance(each, NewConnectionError) for each in causes)


def _text(error: BaseException) -> str:
    match error:
        case LibcloudError():
            text = str(error.value)
        case requests.exceptions.RequestException():
            text = type(error).__name__
        case _:
            text = str(error) or type(error).__name__
    # Nova and others repeat the argument that they refuse.
    revealing = _REVEALING.search(text)
    if revealing:
        text = text[: revealing.end()] + " ..."
    return text[:_LONGEST_TEXT]


def _seconds(value: object) -> float | None:
    try:
        return float(str(value)) if value is not None else None
    except ValueError:
        return None
