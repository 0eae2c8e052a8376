"""The HTTP side of the command line: the client library, and what its errors mean to a person.

It answers with JSON as it came, which `--json` writes: commands read it as they need it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from longshore.dispatcher.cli.failure import FAILED, UNREACHABLE, USAGE, CommandFailure
from longshore.dispatcher.cli.output import say
from longshore.dispatcher.client.errors import (
    ClientError,
    ForbiddenError,
    InvalidSettingsError,
    UnauthorizedError,
    UnexpectedAnswerError,
    UnreachableError,
    stranger,
)
from longshore.dispatcher.client.exchange import (
    BY_URL,
    ApiCall,
    Repeatable,
    RepeatPolicy,
    encoded,
)
from longshore.dispatcher.client.server_address import is_token, server_at

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

Json = dict[str, Any]
Query = Sequence[tuple[str, str]]

LATE_S = 5.0
PAGE_ITEMS = 500
LIMIT_MAX = 1_000_000
"""How many items are asked for where all are wanted: more than there ever are."""
IMPATIENT = RepeatPolicy(repeats=2, repeats_unreached=0, first_pause_s=0.3, longest_pause_s=5.0)
"""A person waits, and can repeat the command: a server that is not there is told at once."""


class CommandClient:
    """Speaks to one server; usable from several threads, to be closed when done.

    `url` may carry a path, for a server behind a proxy; None is this machine's server. `token` is
    "" for none. Every call raises `CommandFailure`: exit code 3 when the server cannot be reached,
    1 when it refuses.
    """

    def __init__(self, url: str | None, token: str) -> None:
        # They cost 100 ms, and help texts do not need them.
        from longshore.dispatcher.client.blocking_transport import BlockingTransport  # noqa: PLC0415 - see above
        from longshore.dispatcher.client.settings import client_settings  # noqa: PLC0415 - see above

        checked = None if url is None else checked_url(url)
        with told_to_people():
            settings = client_settings(checked, checked_token(token))
            self._transport = BlockingTransport(settings, IMPATIENT)
        self.url = settings.url
        self._said_late = False

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, path: str, query: Query = ()) -> Json:
        """Return the JSON object at `path`."""
        call = ApiCall(method="GET", path=path, repeatable=Repeatable.SAFE, query=tuple(query))
        with told_to_people():
            answer = self._transport.json(call)
            if not isinstance(answer, dict):
                raise stranger(self.url)
        return answer

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        idempotency_key: str = "",
    ) -> Any:
        """Send `body` as JSON and return the JSON answer.

        With an `idempotency_key` a request is sent again whose answer was lost, or says that
        nobody knows what will come of it: the server does the work once only. Where that remains
        open, the remedy names the key. While an answer is late, stderr tells so, once.
        """
        call = ApiCall(
            method=method,
            path=path,
            repeatable=Repeatable.KEYED if idempotency_key else Repeatable.ONCE,
            body=None if body is None else encoded(body),
            idempotency_key=idempotency_key,
        )
        with self._telling_when_late(), told_to_people():
            return self._transport.json(call)

    def pages(self, path: str, query: Query, limit: int) -> Iterator[Json]:
        """Yield up to `limit` items of a listing, fetching page by page."""
        for page in self._pages(path, query, limit):
            yield from page["items"]

    def whole(self, path: str, query: Query, limit: int) -> Json:
        """Return a listing of up to `limit` items as one document: the last page, with all items.

        For what is few: all of it is held.
        """
        whole: Json = {}
        items: list[Any] = []
        for page in self._pages(path, query, limit):
            items += page["items"]
            whole = {**page, "items": items}
        return whole

    def _pages(self, path: str, query: Query, limit: int) -> Iterator[Json]:
        cursor = ""
        left = limit
        while left > 0:
            asked = [*query, ("limit", str(min(left, PAGE_ITEMS)))]
            page = self.get(path, [*asked, ("cursor", cursor)] if cursor else asked)
            items = page.get("items", [])
            yield {**page, "items": items[:left]}
            left -= len(items)
            cursor = page.get("next_cursor") or ""
            if not cursor or not items:
                return

    def stream(
        self,
        path: str,
        query: Query = (),
        *,
        read_timeout_s: float,
        accept: str = "*/*",
    ) -> BaseHTTPResponse:
        """Open a streamed answer; the caller reads it with `chunks` and closes it."""
        call = ApiCall(
            method="GET",
            path=path,
            repeatable=Repeatable.SAFE,
            query=tuple(query),
            accept=accept,
        )
        with told_to_people():
            return self._transport.stream(call, silence_s=read_timeout_s)

    def chunks(self, response: BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the bytes of a streamed answer as they come in."""
        with told_to_people():
            yield from self._transport.chunks(response)

    @contextmanager
    def _telling_when_late(self) -> Iterator[None]:
        timer = threading.Timer(LATE_S, self._tell_late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def _tell_late(self) -> None:
        if not self._said_late:
            self._said_late = True
            say(f"no answer yet from {self.url}; waiting for the server")


@contextmanager
def told_to_people() -> Iterator[None]:
    """Raise what the client library raises as the failure of a command."""
    try:
        yield
    except ClientError as error:
        raise failure_of(error) from error


def failure_of(error: ClientError) -> CommandFailure:
    """Return what a person is told of an error of the client library's."""
    match error:
        case UnreachableError():
            exit_code = UNREACHABLE
        case InvalidSettingsError():
            exit_code = USAGE
        case _:
            # What was asked for cannot be: the same mistake as one that is found before sending.
            exit_code = USAGE if error.status in (400, 413) else FAILED
    return CommandFailure(
        error.sentence,
        remedy=_remedy(error),
        exit_code=exit_code,
        problems=[(each.path, each.message) for each in error.errors],
        status=error.status,
        in_doubt=error.in_doubt,
    )


def _remedy(error: ClientError) -> str:
    if error.in_doubt and error.idempotency_key:
        return (
            "It may have been accepted: repeat the command with --idempotency-key "
            f"{error.idempotency_key}, which does it once"
        )
    match error:
        case UnauthorizedError():
            return "Set LONGSHORE_TOKEN to a token of this server"
        case ForbiddenError():
            return "Use the token of somebody who may do this"
        case UnexpectedAnswerError():
            return "Check --url or LONGSHORE_URL"
        case UnreachableError():
            return error.remedy.replace(BY_URL, "--url or LONGSHORE_URL")
        case _:
            return error.remedy


def checked_url(url: str) -> str:
    """Return `url`; raises `CommandFailure` when it cannot be one of a server."""
    if server_at(url) is None:
        raise not_a_url(url)
    return url.rstrip("/")


def not_a_url(url: str) -> CommandFailure:
    """Return what is said about a URL that cannot be one."""
    return CommandFailure(
        f"'{url}' is not the URL of a server",
        remedy="Give one like http://127.0.0.1:8420 by --url or LONGSHORE_URL",
        exit_code=USAGE,
    )


def checked_token(token: str) -> str:
    """Return `token`; raises `CommandFailure` when it cannot be sent in a header."""
    if not is_token(token):
        raise CommandFailure(
            "LONGSHORE_TOKEN holds characters that no token has",
            remedy="Check for line ends, blanks and quotes",
            exit_code=USAGE,
        )
    return token
