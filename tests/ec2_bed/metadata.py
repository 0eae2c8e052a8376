"""The metadata service of the bed's instances (version 2): its token, and the notice of its end."""

from __future__ import annotations

import json
import secrets
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler

_TOKEN_HEADER = "X-aws-ec2-metadata-token"  # noqa: S105 - the name of a header, not a password


class Metadata:
    """What the metadata service knows of all instances; each has a path of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: set[str] = set()
        self._notices: dict[str, str] = {}
        self.asked: Counter[str] = Counter()

    def give_notice(self, instance_id: str, at: str) -> None:
        """Tell an instance that it is taken back at `at`, "YYYY-MM-DDTHH:MM:SSZ"."""
        with self._lock:
            self._notices[instance_id] = at

    def put(self, instance_id: str, path: str, lifetime: str | None) -> tuple[int, bytes]:
        """Return the answer to a PUT."""
        if path != "/latest/api/token":
            return 404, b""
        if not (lifetime or "").isdecimal():
            return 400, b""
        token = secrets.token_hex(16)
        with self._lock:
            self._tokens.add(token)
            self.asked[instance_id] += 1
        return 200, token.encode()

    def get(self, instance_id: str, path: str, token: str | None) -> tuple[int, bytes]:
        """Return the answer to a GET; without a token there is none, as with IMDSv2 required."""
        with self._lock:
            if token not in self._tokens:
                return 401, b""
            notice = self._notices.get(instance_id)
        if path == "/latest/meta-data/instance-id":
            return 200, instance_id.encode()
        if path == "/latest/meta-data/spot/instance-action" and notice is not None:
            return 200, json.dumps({"action": "terminate", "time": notice}).encode()
        return 404, b""


def answer(metadata: Metadata, handler: BaseHTTPRequestHandler) -> tuple[int, bytes]:
    """Answer a request for /metadata/<instance id>/latest/...."""
    _, _, instance_id, *rest = handler.path.split("/")
    path = "/" + "/".join(rest)
    if handler.command == "PUT":
        lifetime = handler.headers.get("X-aws-ec2-metadata-token-ttl-seconds")
        return metadata.put(instance_id, path, lifetime)
    return metadata.get(instance_id, path, handler.headers.get(_TOKEN_HEADER))
