"""HTTP over a Unix socket, for tests."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


def local_call(
    path: Path, method: str, target: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    """Return the status and the JSON of an answer over the socket at `path`."""
    connection = _Connection(path)
    try:
        data = None if body is None else json.dumps(body)
        if body is not None:
            headers = {"Content-Type": "application/json", **headers}
        connection.request(method, target, body=data, headers=headers)
        answer = connection.getresponse()
        content = answer.read()
        return answer.status, json.loads(content) if content else None
    finally:
        connection.close()
