"""A registry of one image, which answers for its content when it is let: pulls take their time."""

from __future__ import annotations

import base64
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class ImageRegistry:
    """Serves an image of Podman's under `name`; whoever pulls it waits until `gate` is set."""

    def __init__(self, podman: str, image: str, directory: Path, *, login: str = "") -> None:
        """`login` is the "USER:PASSWORD" without which nothing is answered, "" for none."""
        self._expected = f"Basic {base64.b64encode(login.encode()).decode()}" if login else ""
        subprocess.run(
            [podman, "push", "--quiet", image, f"dir:{directory}"],
            check=True,
            capture_output=True,
        )
        self._directory = directory
        self.manifest = (directory / "manifest.json").read_bytes()
        self.gate = threading.Event()
        self.asked = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="registry")
        self.name = f"127.0.0.1:{self._server.server_port}/longshore/pulled:1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.gate.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, path: str) -> tuple[str, bytes]:
        """Return the type and content of what lies at a path of the registry."""
        _, _, kind = path.rstrip("/").rpartition("/v2")
        if not kind:
            return "application/json", b"{}"
        self.asked.set()
        self.gate.wait(60)
        if "/manifests/" in kind:
            return MANIFEST, self.manifest
        digest = kind.rpartition("sha256:")[2]
        return "application/octet-stream", (self._directory / digest).read_bytes()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer, expected = self._answer, self._expected

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if expected and self.headers.get("Authorization") != expected:
                    self.send_response(401)
                    self.send_header("WWW-Authenticate", 'Basic realm="longshore"')
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                kind, content = answer(self.path)
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(content)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, *_words: object) -> None:
                """Say nothing on the tests' standard error."""

        return Handler
