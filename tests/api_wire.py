"""Plain sockets to the API: what no HTTP library would send, and what must come back."""

from __future__ import annotations

import json
import socket

from tests.api_requests import Sent


class Wire:
    """One connection at a time, kept open while the server keeps it open."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._socket: socket.socket | None = None
        self._rest = b""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""

    def exchange(self, sent: Sent) -> tuple[int, dict[str, str], bytes]:
        """Return (status, headers, body); of a stream only what came with its head."""
        fresh = self._socket is None
        try:
            return self._exchange(sent.encoded(self.port), head_only=sent.method == "HEAD")
        except (ConnectionError, EOFError):
            self.close()
            if fresh:
                raise
        # A connection that was kept open may be closed by the server at any time.
        return self._exchange(sent.encoded(self.port), head_only=sent.method == "HEAD")

    def _exchange(self, data: bytes, *, head_only: bool) -> tuple[int, dict[str, str], bytes]:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(data)
        status, headers = self._head()
        while 100 <= status < 200:
            status, headers = self._head()
        if "transfer-encoding" in headers:
            self.close()
            return status, headers, b""
        body = b"" if head_only else self._take(int(headers["content-length"]))
        if headers.get("connection", "") == "close":
            self.close()
        return status, headers, body

    def _head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(first.split()[1]), headers

    def _take(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._more()
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _more(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(2**20)
        if not data:
            raise EOFError
        self._rest += data


def check(sent: Sent, status: int, headers: dict[str, str], body: bytes) -> None:
    assert status < 500, (sent, body)
    if status >= 400 and sent.method != "HEAD":
        assert headers["content-type"].startswith("application/problem+json"), (sent, body)
        answer = json.loads(body)
        assert answer["status"] == status
        assert answer["detail"]
        assert len(body) < 200_000
        for error in answer["errors"]:
            assert error["message"]
    elif sent.method == "POST" and sent.target == "/v1/containers":
        answer = json.loads(body)
        for made in answer.get("items", [answer]):
            assert made["state"] == "queued"
    elif sent.method == "POST" and sent.target == "/v1/jobs":
        answer = json.loads(body)
        assert answer["state"] == "pending"
        is_template = bool(answer.get("periodic") or answer.get("parameterized"))
        made = 0 if is_template else sum(task["size"] for task in answer["tasks"])
        assert answer["counts"]["total"] == made
