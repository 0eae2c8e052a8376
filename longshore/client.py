"""The client library: `Client` and `AsyncClient`, what they raise, and what they answer with.

    from longshore.client import Client

    with Client() as client:
        print(client.submit(["echo", "hello"]).result().exit_code)

docs/client.md tells the rest. This module has names only; what is behind them is in
`longshore.dispatcher.client`, and answers are the structs of `longshore.dispatcher.api.schemas`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longshore.dispatcher.api.schemas.containers import ContainerAnswer, EventAnswer, FieldProblem
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.client.blocking import Client, ContainerHandle, JobHandle
from longshore.dispatcher.client.errors import (
    ClientError,
    ConflictError,
    ForbiddenError,
    InvalidRequestError,
    InvalidSettingsError,
    LostAnswerError,
    NotFoundError,
    OutcomeUnknownError,
    RateLimitedError,
    RefusedError,
    RunCancelledError,
    RunFailedError,
    SeveralContainersError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedAnswerError,
    UnreachableError,
)
from longshore.dispatcher.client.event_stream import EventGap
from longshore.dispatcher.client.exchange import RepeatPolicy

if TYPE_CHECKING:
    from longshore.dispatcher.client.asynchronous import (
        AsyncClient,
        AsyncContainerHandle,
        AsyncJobHandle,
    )

__all__ = [
    "AsyncClient",
    "AsyncContainerHandle",
    "AsyncJobHandle",
    "Client",
    "ClientError",
    "ConflictError",
    "ContainerAnswer",
    "ContainerHandle",
    "EventAnswer",
    "EventGap",
    "FieldProblem",
    "ForbiddenError",
    "InvalidRequestError",
    "InvalidSettingsError",
    "JobAnswer",
    "JobHandle",
    "LostAnswerError",
    "NotFoundError",
    "OutcomeUnknownError",
    "RateLimitedError",
    "RefusedError",
    "RepeatPolicy",
    "RunCancelledError",
    "RunFailedError",
    "SeveralContainersError",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "UnreachableError",
]


def __getattr__(name: str) -> Any:
    """Return a name of the async client, which costs 200 ms to import, when it is asked for."""
    if name.startswith("Async") and name in __all__:
        from longshore.dispatcher.client import asynchronous  # noqa: PLC0415 - see above

        return getattr(asynchronous, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
