"""A server that answers whatever a test says, for the command line to speak with."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

Behaviour = Callable[[BaseHTTPRequestHandler], None]


class Stranger(BaseHTTPRequestHandler):
    """Does what the test says, once per request; the last of it again and again."""

    protocol_version = "HTTP/1.1"
    behaviours: ClassVar[list[Behaviour]] = []
    seen: ClassVar[list[tuple[str, str, dict[str, str], bytes]]] = []

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.seen.append((self.command, self.path, dict(self.headers), body))
        behaviours = self.behaviours
        (behaviours.pop(0) if len(behaviours) > 1 else behaviours[0])(self)

    do_GET = do_POST = do_PUT = do_PATCH = handle_any  # noqa: N815 - http.server fixes the names

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def answering(status: int, body: bytes, content_type: str = "application/json") -> Behaviour:
    """Return what answers with a status and a body."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(body)))
        if status == 302:
            handler.send_header("Location", "http://127.0.0.1:1/elsewhere")
        handler.end_headers()
        handler.wfile.write(body)

    return behave


@contextmanager
def stranger_server(*behaviours: Behaviour) -> Iterator[tuple[str, type[Stranger]]]:
    """Serve on a free port; yield the URL, and the class whose `behaviours` may be changed."""
    Stranger.behaviours, Stranger.seen = list(behaviours), []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stranger)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", Stranger
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
