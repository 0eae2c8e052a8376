"""What a client raises: one class for each thing that a caller may do about it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from longshore.dispatcher.api.schemas.containers import ContainerAnswer, FieldProblem
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.api.schemas.reading import read_answer

Answer = TypeVar("Answer")

IN_DOUBT_TYPE = "urn:longshore:problem:outcome-unknown"


class ClientError(Exception):
    """Something went wrong with a request, or with what was waited for; its text names the remedy.

    Caught as it is, it stands for all of the classes below.
    """

    def __init__(
        self,
        sentence: str,
        *,
        remedy: str = "",
        status: int = 0,
        problem_type: str = "",
        errors: Sequence[FieldProblem] = (),
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        #: What to do about it, "" where the sentence says so itself.
        self.remedy = remedy
        #: The HTTP status, 0 where there was no answer.
        self.status = status
        #: The `type` of the problem document, "" without one.
        self.problem_type = problem_type
        #: What is wrong with the request, all of it at once.
        self.errors = tuple(errors)
        #: How long the server wants to be left alone, None where it does not say.
        self.retry_after_s = retry_after_s
        #: The key under which a create may be repeated that is `in_doubt`, "" for none.
        self.idempotency_key = ""

    @property
    def in_doubt(self) -> bool:
        """Return whether what was asked for may be done all the same."""
        return False

    @property
    def passing(self) -> bool:
        """Return whether the same request may be answered soon."""
        return self.status >= 500 or self.status == 429

    def __str__(self) -> str:
        """Return the sentence with its remedy, then what is wrong, a line each."""
        first = self.sentence
        if self.remedy:
            first = f"{first.rstrip('.')}. {self.remedy}"
        told = [f"  {e.path}: {e.message}" if e.path else f"  {e.message}" for e in self.errors]
        return "\n".join([first, *told])


class InvalidSettingsError(ClientError):
    """The client cannot be made: its URL, token or CA file is no such thing; see `errors`."""


class UnreachableError(ClientError):
    """The server was not reached, so nothing was done; start it, or name another."""

    @property
    def passing(self) -> bool:
        """Return True: it may be there again soon."""
        return True


class LostAnswerError(UnreachableError):
    """The request was sent and its answer did not arrive: nobody knows whether it was done.

    A create may be repeated with its `idempotency_key`, which does it once.
    """

    @property
    def in_doubt(self) -> bool:
        """Return True: that is what it says."""
        return True


class UnexpectedAnswerError(ClientError):
    """What answers is no Longshore server, or one of another version; check the URL."""

    @property
    def in_doubt(self) -> bool:
        """Return whether a gateway says that it lost the answer."""
        return self.status in GATEWAY_LOST


GATEWAY_LOST = (502, 504)
"""What a proxy answers when the server behind it did not."""


class RefusedError(ClientError):
    """The server answered with a problem of a status that has no class of its own."""


class InvalidRequestError(RefusedError):
    """The request cannot be carried out as it is; `errors` says all that is wrong with it."""


class UnauthorizedError(RefusedError):
    """The server wants a token, or another one."""


class ForbiddenError(RefusedError):
    """The caller may not do this; ask somebody who may."""


class NotFoundError(RefusedError):
    """There is no such thing, or none that the caller sees."""


class ConflictError(RefusedError):
    """The thing is in a state that does not allow this."""


class RateLimitedError(RefusedError):
    """Too many requests; wait for `retry_after_s`."""


class UnavailableError(RefusedError):
    """The server cannot take this now, and nothing was done; try again later."""


class OutcomeUnknownError(UnavailableError):
    """The server does not know yet whether it was done; repeat it with its `idempotency_key`."""

    @property
    def in_doubt(self) -> bool:
        """Return True: that is what it says."""
        return True


class SeveralContainersError(ClientError):
    """A job has several containers, or none yet, where one is meant; choose of `containers`."""


class RunCancelledError(ClientError):
    """The container or job that was waited for was cancelled; `answer` is what became of it."""

    def __init__(self, sentence: str, answer: ContainerAnswer | JobAnswer | None = None) -> None:
        super().__init__(sentence)
        self.answer = answer


class RunFailedError(ClientError):
    """The container or job that was waited for failed; `answer` is what became of it."""

    def __init__(self, sentence: str, answer: ContainerAnswer | JobAnswer | None = None) -> None:
        super().__init__(sentence)
        self.answer = answer

    @property
    def exit_code(self) -> int | None:
        """Return the exit code, None where it ended without one."""
        return self.answer.exit_code if self.answer is not None else None


_CLASSES: Mapping[int, type[RefusedError]] = {
    400: InvalidRequestError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: InvalidRequestError,
    415: InvalidRequestError,
    422: InvalidRequestError,
    429: RateLimitedError,
    503: UnavailableError,
}
_REMEDIES: Mapping[int, str] = {
    401: "Set LONGSHORE_TOKEN, or token=, to a token of this server",
    403: "Use the token of somebody who may do this",
    429: "Send fewer requests, or wait a while",
    503: "Try again later",
}


def refusal(
    url: str, status: int, content: bytes, *, retry_after_s: float | None = None
) -> ClientError:
    """Return what is raised for an answer that is none of what was asked for.

    `retry_after_s` is what the header of that name says, None for nothing.
    """
    try:
        told = json.loads(content)
    except ValueError:
        told = None
    if not isinstance(told, dict) or not ("title" in told or "detail" in told):
        return stranger(url, status, retry_after_s=retry_after_s)
    kind = _CLASSES.get(status, RefusedError)
    problem_type = str(told.get("type") or "")
    if status == 503 and problem_type == IN_DOUBT_TYPE:
        kind = OutcomeUnknownError
    return kind(
        str(told.get("detail") or told.get("title") or f"the server answered {status}"),
        remedy=_REMEDIES.get(status, ""),
        status=status,
        problem_type=problem_type,
        errors=_errors(told.get("errors")),
        retry_after_s=retry_after_s,
    )


def _errors(told: object) -> list[FieldProblem]:
    entries = [each for each in (told if isinstance(told, list) else []) if isinstance(each, dict)]
    return [
        FieldProblem(path=str(each.get("path", "")), message=str(each.get("message", "")))
        for each in entries
    ]


def stranger(
    url: str, status: int = 200, *, retry_after_s: float | None = None
) -> UnexpectedAnswerError:
    """Return what is raised when something else than a Longshore server answers."""
    return UnexpectedAnswerError(
        f"what answers at {url} (status {status}) is not a Longshore server",
        remedy="Check url= or LONGSHORE_URL",
        status=status,
        retry_after_s=retry_after_s,
    )


def unreadable(why: str) -> UnexpectedAnswerError:
    """Return what is raised for an answer of a server that speaks otherwise."""
    return UnexpectedAnswerError(
        f"cannot read what the server says ({why})",
        remedy="Its version differs from this client's: update the older one",
        status=200,
    )


def decoded(url: str, content: bytes) -> object:
    """Return the JSON of an answer; raises `UnexpectedAnswerError` when it is none."""
    try:
        told: object = json.loads(content)
    except ValueError as error:
        raise stranger(url) from error
    return told


def read_as(data: object, kind: type[Answer]) -> Answer:
    """Return decoded JSON as a `kind`; raises `UnexpectedAnswerError` where it is none."""
    try:
        return read_answer(data, kind)
    except msgspec.ValidationError as error:
        raise unreadable(str(error)) from error
