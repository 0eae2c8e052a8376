"""The toy cloud of the example driver: an API over HTTP, and machines that are this machine."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from longshore.dispatcher.conformance.model import Cause
from longshore.drivers.local.machine import LocalMachine, remove_files

_PAGE = 2
_ANSWERS: dict[Cause, tuple[int, str]] = {
    Cause.THROTTLED: (429, "slow-down"),
    Cause.QUOTA_OF_GROUP: (409, "family-limit"),
    Cause.QUOTA_OF_ACCOUNT: (409, "account-limit"),
    Cause.SHORT_OF_TYPE: (503, "short-of-type"),
    Cause.SHORT_OF_ALL: (503, "short-of-all"),
    Cause.BAD_CREDENTIALS: (401, "bad-token"),
    Cause.SERVER_ERROR: (500, "something-broke"),
}
_OF_CREATES = frozenset(
    {
        Cause.QUOTA_OF_GROUP,
        Cause.QUOTA_OF_ACCOUNT,
        Cause.SHORT_OF_TYPE,
        Cause.SHORT_OF_ALL,
    }
)


class Refusal(Exception):  # noqa: N818 - an answer of the API, which the handler gives
    """An answer other than 200, with the code that the API has for it."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"{status} {code}")
        self.status = status
        self.code = code


class _HangUp(Exception):  # noqa: N818 - nothing is wrong with the cloud
    """The answer is lost on its way."""


@dataclass(slots=True, kw_only=True)
class _Machine:
    id: str
    token: str
    tags: dict[str, str] = field(default_factory=dict)
    local: LocalMachine


class ToyCloud:
    """One account, in this process, until `close`; it makes trouble on demand, as a `Bed`."""

    def __init__(self, directory: Path) -> None:
        self.token = secrets.token_hex(8)
        self.created: list[str] = []
        self._directory = directory
        self._machines: dict[str, _Machine] = {}
        self._lock = threading.RLock()
        self._trouble: Cause | None = None
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = False  # so that closing waits for them
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    @property
    def url(self) -> str:
        """Return where the API is, without a slash at the end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def causes(self) -> frozenset[Cause]:
        return frozenset(_ANSWERS) | {Cause.LOST_ANSWER, Cause.DUPLICATES, Cause.CUT_LISTING}

    @contextmanager
    def causing(self, cause: Cause) -> Iterator[None]:
        self._trouble = cause
        try:
            yield
        finally:
            self._trouble = None

    def make_foreign(self) -> str:
        """Create an instance of somebody else."""
        return str(self._create({"token": secrets.token_hex(4), "tags": {}})["id"])

    def is_running(self, instance_id: str) -> bool:
        """Return whether there is an instance."""
        return instance_id in self._machines

    def close(self) -> None:
        """End the server and all machines."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for machine_id in sorted(self._machines):
            self._destroy(machine_id)

    def answer(self, method: str, path: str, authorization: str, body: Any) -> Any:
        """Do what a request asks for and return the answer; raises `Refusal` and `_HangUp`."""
        trouble = self._trouble
        if authorization != f"Bearer {self.token}":
            raise Refusal(*_ANSWERS[Cause.BAD_CREDENTIALS])
        path, _, query = path.partition("?")
        creates = (method, path) == ("POST", "/instances")
        if trouble in _ANSWERS and (creates or trouble not in _OF_CREATES):
            raise Refusal(*_ANSWERS[trouble])
        if creates:
            shown = self._create(body)
            if trouble is Cause.LOST_ANSWER:
                raise _HangUp
            return shown
        if (method, path) == ("GET", "/instances"):
            return self._page(int(query.partition("=")[2] or 0))
        with self._lock:
            machine = self._machines.get(path.removeprefix("/instances/"))
            if machine is None:
                raise Refusal(404, "no-such-instance")
            match method:
                case "GET":
                    return self._shown(machine)
                case "PATCH":
                    machine.tags.update(body["tags"])
                    return self._shown(machine)
                case "DELETE":
                    self._destroy(machine.id)
                    return {}
        raise Refusal(405, "no-such-call")

    def _create(self, wanted: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            for machine in self._machines.values():
                if machine.token == wanted["token"]:
                    return self._shown(machine)
            machine_id = f"toy-{secrets.token_hex(6)}"
            machine = _Machine(
                id=machine_id,
                token=wanted["token"],
                tags=dict(wanted["tags"]),
                local=LocalMachine(
                    instance_id=machine_id,
                    directory=self._directory / machine_id,
                    authorized_key=wanted.get("login_key", ""),
                ),
            )
            self._machines[machine_id] = machine
            self.created.append(machine_id)
            machine.local.boot(wanted.get("boot_script", ""))
            return self._shown(machine)

    def _page(self, first: int) -> dict[str, Any]:
        """Return a page of the list: two instances, and where the next page is."""
        with self._lock:
            shown = [self._shown(machine) for _, machine in sorted(self._machines.items())]
        if self._trouble is Cause.DUPLICATES:
            shown += shown
        if self._trouble is Cause.CUT_LISTING:
            # The first page is there, and shows nothing; the second one fails.
            if first:
                raise Refusal(*_ANSWERS[Cause.SERVER_ERROR])
            return {"instances": [], "next": "/instances?first=1"}
        following = first + _PAGE
        more = f"/instances?first={following}" if following < len(shown) else ""
        return {"instances": shown[first:following], "next": more}

    def _destroy(self, machine_id: str) -> None:
        machine = self._machines.pop(machine_id)
        machine.local.end()
        remove_files(self._directory / machine_id)

    @staticmethod
    def _shown(machine: _Machine) -> dict[str, Any]:
        return {
            "id": machine.id,
            "address": machine.local.address,
            "tags": dict(machine.tags),
            "host_key": machine.local.host_key,
        }


def _handler_of(cloud: ToyCloud) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(content) if content else None
            status, answer = 200, None
            try:
                authorization = self.headers.get("Authorization", "")
                answer = cloud.answer(self.command, self.path, authorization, body)
            except Refusal as refusal:
                status, answer = refusal.status, {"error": refusal.code}
            except _HangUp:
                return
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            if status == 429:
                self.send_header("Retry-After", "3")
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815 - named by the base

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
