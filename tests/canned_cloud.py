"""A cloud's API over HTTP whose every answer a test has given: for real clients of real clouds."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HANG_UP = 0
"""The status of an answer that never comes: the connection is closed after the request is read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it came; `body` is what its JSON says, None without any."""

    what: str
    query: str
    body: Any
    headers: Mapping[str, str] = field(repr=False)


class CannedCloud:
    """Answers "METHOD PATH" as told: the answers in turn, the last of them for ever.

    What nobody told it to answer is in `strange`, and answered with 599.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.strange: list[str] = []
        self._answers: dict[str, list[tuple[int, Any, dict[str, str]]]] = {}
        self._lock = threading.Lock()
        cloud = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                cloud.serve(self)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any  # noqa: N815 - named by the base

            def log_message(self, *_: object) -> None:
                """Say nothing: the test reads `asked`."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False  # so that closing waits for them
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Return where it is, without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def answer(
        self, what: str, body: Any = None, *, status: int = 200, **headers: str
    ) -> CannedCloud:
        """Add an answer to "METHOD PATH"."""
        self._answers.setdefault(what, []).append((status, body, headers))
        return self

    def bodies(self, what: str) -> list[Any]:
        """Return the bodies of the requests that were so."""
        return [each.body for each in self.asked if each.what == what]

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        path, _, query = request.path.partition("?")
        what = f"{request.command} {path}"
        content = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        with self._lock:
            self.asked.append(
                Asked(
                    what=what,
                    query=query,
                    body=json.loads(content) if content else None,
                    headers=dict(request.headers),
                )
            )
            told = self._answers.get(what)
            if not told:
                self.strange.append(what)
            status, body, headers = (
                (599, None, {}) if not told else told.pop(0) if len(told) > 1 else told[0]
            )
        if status == HANG_UP:
            request.close_connection = True
            return
        text = b"" if body is None else json.dumps(body).encode()
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name.replace("_", "-"), value)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(text)))
        request.end_headers()
        request.wfile.write(text)


@contextmanager
def canned_cloud() -> Iterator[CannedCloud]:
    """Yield a cloud; afterwards, fail if it was asked what nobody told it to answer."""
    cloud = CannedCloud()
    try:
        yield cloud
        assert not cloud.strange, f"nobody has said what to answer to {cloud.strange}"
    finally:
        cloud.close()
