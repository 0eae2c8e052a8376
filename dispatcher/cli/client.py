"""The HTTP side of the command line: requests, and what their failures mean to a person."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlencode, urlsplit

from longshore.dispatcher.cli.failure import FAILED, UNREACHABLE, USAGE, CommandFailure
from longshore.dispatcher.cli.output import say

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

Json = dict[str, Any]
Query = Sequence[tuple[str, str]]

CONNECT_TIMEOUT_S = 10.0
READ_TIMEOUT_S = 60.0
LATE_S = 5.0
MAX_BODY_BYTES = 256 * 1024 * 1024
REPEATS_OF_SAFE_REQUESTS = 2
PAUSE_BEFORE_REPEAT_S = 0.3
PAGE_ITEMS = 500
LIMIT_MAX = 1_000_000
"""How many items are asked for where all are wanted: more than there ever are."""


class Client:
    """Speaks to one server; usable from several threads, to be closed when done.

    `url` may carry a path, for a server behind a proxy; `token` is "" for none. Every call raises
    `CommandFailure`: exit code 3 when the server cannot be reached, 1 when it refuses.
    """

    def __init__(self, url: str, token: str) -> None:
        import urllib3  # noqa: PLC0415 - costs 100 ms, and help texts do not need it

        self.url = checked_url(url)
        self._headers = {"Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {checked_token(token)}"
        self._pool = urllib3.PoolManager(maxsize=4, retries=False)
        self._said_late = False

    def close(self) -> None:
        """Close all connections."""
        # `clear` alone leaves the closing to the garbage collector.
        for key in self._pool.pools.keys():  # noqa: SIM118 - it is no dict, and cannot be iterated
            self._pool.pools[key].close()
        self._pool.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, path: str, query: Query = ()) -> Json:
        """Return the JSON object at `path`."""
        answer = self._json("GET", path, query=query, repeatable=True)
        if not isinstance(answer, dict):
            raise self._stranger()
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
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        with self._telling_when_late():
            try:
                return self._json(
                    method, path, body=body, headers=headers, repeatable=bool(idempotency_key)
                )
            except CommandFailure as failure:
                if idempotency_key and failure.in_doubt:
                    failure.remedy = (
                        "It may have been accepted: repeat the command with --idempotency-key "
                        f"{idempotency_key}, which does it once"
                    )
                raise

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
        response = self._request(
            "GET", path, query, headers={"Accept": accept}, read_timeout_s=read_timeout_s
        )
        if response.status != 200:
            raise self._refusal(response.status, self._body(response))
        return response

    def chunks(self, response: BaseHTTPResponse) -> Iterator[bytes]:
        """Yield the bytes of a streamed answer as they come in."""
        import urllib3.exceptions  # noqa: PLC0415 - costs 100 ms, and help texts do not need it

        try:
            while chunk := response.read1():
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            # ValueError: another thread shut the response down between two reads.
            raise self._unreachable(error) from error

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

    def _json(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: object = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool,
    ) -> Any:
        repeats = REPEATS_OF_SAFE_REQUESTS if repeatable else 0
        status, content = self._exchange(
            method, path, query=query, body=body, headers=headers or {}, repeats=repeats
        )
        if not 200 <= status < 300:
            raise self._refusal(status, content)
        try:
            return json.loads(content)
        except ValueError as error:
            raise self._stranger() from error

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        query: Query,
        body: object,
        headers: Mapping[str, str],
        repeats: int,
    ) -> tuple[int, bytes]:
        while True:
            try:
                response = self._request(method, path, query, body=body, headers=headers)
                status, content = response.status, self._body(response)
                if not repeats or not self._refusal_in_doubt(status, content):
                    return status, content
            except LostAnswer:
                if not repeats:
                    raise
            repeats -= 1
            time.sleep(PAUSE_BEFORE_REPEAT_S)

    def _refusal_in_doubt(self, status: int, content: bytes) -> bool:
        return status == 503 and self._refusal(status, content).in_doubt

    def _request(
        self,
        method: str,
        path: str,
        query: Query,
        *,
        body: object = None,
        headers: Mapping[str, str],
        read_timeout_s: float = READ_TIMEOUT_S,
    ) -> BaseHTTPResponse:
        import urllib3  # noqa: PLC0415 - costs 100 ms, and help texts do not need it

        sent = {**self._headers, **headers}
        payload = None
        if body is not None:
            payload = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
            sent["Content-Type"] = "application/json"
        url = self.url + path + (f"?{urlencode(query)}" if query else "")
        timeout = urllib3.Timeout(connect=CONNECT_TIMEOUT_S, read=read_timeout_s)
        try:
            return self._pool.request(
                method,
                url,
                body=payload,
                headers=sent,
                timeout=timeout,
                redirect=False,
                preload_content=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise self._unreachable(error) from error

    def _body(self, response: BaseHTTPResponse) -> bytes:
        import urllib3.exceptions  # noqa: PLC0415 - costs 100 ms, and help texts do not need it

        try:
            content = response.read(MAX_BODY_BYTES)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._unreachable(error) from error
        response.release_conn()
        return content

    def _unreachable(self, error: Exception) -> CommandFailure:
        import urllib3.exceptions as kinds  # noqa: PLC0415 - costs 100 ms otherwise

        remedy = "Start it with 'longshore serve', or name another with --url or LONGSHORE_URL"
        match error:
            case kinds.LocationValueError():
                return not_a_url(self.url)
            case kinds.NameResolutionError():
                cause = "its name does not resolve"
            case kinds.ConnectTimeoutError() if not isinstance(error, kinds.NewConnectionError):
                cause = f"it did not answer within {CONNECT_TIMEOUT_S:.0f} s"
            case kinds.SSLError():
                cause, remedy = f"TLS failed: {error}", "Check the certificate and the URL's scheme"
            case kinds.NewConnectionError():
                cause = str(error.__cause__ or error).rpartition("] ")[2].lower()
            case kinds.ReadTimeoutError():
                return LostAnswer(f"no answer from {self.url} in time", remedy="Try again")
            case _:
                return LostAnswer(f"the connection to {self.url} broke", remedy="Try again")
        return CommandFailure(
            f"cannot reach the server at {self.url}: {cause}", remedy=remedy, exit_code=UNREACHABLE
        )

    def _stranger(self, status: int = 200) -> CommandFailure:
        return CommandFailure(
            f"what answers at {self.url} (status {status}) is not a Longshore server",
            remedy="Check --url or LONGSHORE_URL",
            status=status,
        )

    def _refusal(self, status: int, content: bytes) -> CommandFailure:
        try:
            problem = json.loads(content)
        except ValueError:
            problem = None
        if not isinstance(problem, dict) or not ("title" in problem or "detail" in problem):
            return self._stranger(status)
        title = str(problem.get("title") or "")
        sentence = str(problem.get("detail") or title or f"the server answered {status}")
        errors = problem.get("errors")
        problems = [
            (str(entry.get("path", "")), str(entry.get("message", "")))
            for entry in (errors if isinstance(errors, list) else [])
            if isinstance(entry, dict)
        ]
        return CommandFailure(
            sentence,
            remedy=REMEDIES.get(status, ""),
            # What was asked for cannot be: the same mistake as one that is found before sending.
            exit_code=USAGE if status in (400, 413) else FAILED,
            problems=problems,
            status=status,
            in_doubt=problem.get("type") == IN_DOUBT_TYPE,
        )


IN_DOUBT_TYPE = "urn:longshore:problem:outcome-unknown"
REMEDIES = {
    401: "Set LONGSHORE_TOKEN to a token of this server",
    403: "Use the token of somebody who may do this",
    503: "Try again later",
}


class LostAnswer(CommandFailure):
    """A request was sent and its answer did not arrive; nobody knows whether it was carried out."""

    def __init__(self, sentence: str, *, remedy: str) -> None:
        super().__init__(sentence, remedy=remedy, exit_code=UNREACHABLE, in_doubt=True)


def checked_url(url: str) -> str:
    """Return `url` without a final slash; raises `CommandFailure` when it cannot be one."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
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
    if not token.isascii() or not token.isprintable() or " " in token:
        raise CommandFailure(
            "LONGSHORE_TOKEN holds characters that no token has",
            remedy="Check for line ends, blanks and quotes",
            exit_code=USAGE,
        )
    return token
