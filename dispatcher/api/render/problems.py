"""Errors as RFC 9457 problem details: one place that turns exceptions into answers.

`InvalidRequest` is answered 400 whatever is wrong, so that a client needs one branch for "mend the
request"; `errors` then lists every problem with its path.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus

import structlog
from aiohttp import web

from longshore.dispatcher.access.credentials import TooManyRequests, Unauthorized
from longshore.dispatcher.api.render.values import encode
from longshore.dispatcher.api.schemas.containers import FieldProblem, ProblemDetails
from longshore.dispatcher.service.contracts import (
    Conflict,
    Forbidden,
    InDoubt,
    KeyReused,
    NotFound,
    Unavailable,
)
from longshore.drivers.errors import InvalidRequest

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

RETRY_AFTER_S = 2
_CHALLENGE = 'Bearer realm="longshore"'
IN_DOUBT = "Outcome Unknown"
"""The title of the 503 that does not mean that nothing was done."""

_STATUSES: Mapping[type[Exception], int] = {
    NotFound: 404,
    Forbidden: 403,
    Conflict: 409,
    KeyReused: 422,
}

_faults = itertools.count(1)
_log = structlog.get_logger(__name__)


def problem(
    status: int,
    detail: str,
    *,
    errors: Sequence[tuple[str, str]] = (),
    headers: dict[str, str] | None = None,
    title: str = "",
) -> web.Response:
    """Return an error's answer; `errors` are (path, sentence), `title` is "" for the status's."""
    title = title or _title(status)
    document = ProblemDetails(
        type=f"urn:longshore:problem:{title.lower().replace(' ', '-')}",
        title=title,
        status=status,
        detail=detail,
        errors=tuple(FieldProblem(path=path, message=message) for path, message in errors),
    )
    return web.Response(
        body=encode(document),
        status=status,
        content_type="application/problem+json",
        headers=headers,
    )


def answer_for(error: Exception, *, where: str) -> web.Response:
    """Return the answer that tells a client of `error`; what nobody expected is logged with an id.

    `where` is the request's method and path, for the log.
    """
    match error:
        case InvalidRequest():
            count = len(error.problems)
            noun = "one problem" if count == 1 else f"{count} problems"
            return problem(400, f"The request has {noun}.", errors=error.problems)
        case NotFound() | Forbidden() | Conflict() | KeyReused():
            return problem(_STATUSES[type(error)], str(error))
        case Unauthorized() | TooManyRequests():
            return _not_let_in(error)
        case Unavailable():
            title = IN_DOUBT if isinstance(error, InDoubt) else ""
            later = {"Retry-After": str(RETRY_AFTER_S)}
            return problem(503, str(error), headers=later, title=title)
        case web.HTTPException() | web.RequestPayloadError():
            return answer_for_http(error)
        case _:
            error_id = log_unexpected("request_failed", error, where=where)
            return problem(500, f"The server failed; its log tells why under {error_id}.")


def _not_let_in(error: Unauthorized | TooManyRequests) -> web.Response:
    match error:
        case Unauthorized():
            refusal = problem(401, str(error), headers={"WWW-Authenticate": _CHALLENGE})
            # Connections are few, and nobody is let in with this one.
            refusal.force_close()
            return refusal
        case TooManyRequests():
            later = {"Retry-After": str(math.ceil(error.retry_after_s))}
            return problem(429, str(error), headers=later)


def log_unexpected(event: str, error: BaseException, *, where: str) -> str:
    """Log an error that nobody expected and return the id under which it is found in the log.

    Its first part is the same for the same fault, its second counts the faults of this process.
    """
    trace = "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__
    fault = hashlib.sha256(trace.encode()).hexdigest()[:8]
    error_id = f"{fault}-{next(_faults)}"
    _log.error(event, error_id=error_id, where=where, exc_info=error)
    return error_id


def answer_for_http(error: web.HTTPException | web.RequestPayloadError) -> web.Response:
    """Return the problem document of an error that aiohttp itself raised."""
    if isinstance(error, web.RequestPayloadError):
        return problem(400, "The body could not be read: it does not match its headers.")
    headers = {
        name: error.headers[name] for name in ("Allow", "Retry-After") if name in error.headers
    }
    match error:
        case web.HTTPNotFound():
            detail = "There is nothing here: /openapi.json lists what there is."
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            detail = f"{error.method[:20]} is not allowed here: use {allowed}."
        case web.HTTPRequestEntityTooLarge():
            detail = f"The body is too large: {error.text}"
        case _:
            detail = error.text or error.reason
    return problem(error.status, detail, headers=headers)


@web.middleware
async def problems_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer every exception as problem details; a client that went away gets nothing."""
    try:
        return await handler(request)
    except ConnectionError:
        raise
    except Exception as error:  # noqa: BLE001 - the last line: nothing may escape without an answer
        return answer_for(error, where=f"{request.method} {request.path}")


def _title(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
