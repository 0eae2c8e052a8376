"""The real thing for end-to-end tests: `longshore serve` as a process, spoken to over HTTP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import urllib3
import yaml

from tests.api_document import any_document

_ROOT = Path(__file__).resolve().parent.parent
_URL = re.compile(rb"serves at (https?://\S+)")
_T = TypeVar("_T")

START_TIMEOUT_S = 120.0
FINAL_STATES = ("succeeded", "failed", "cancelled")


def wait_for(condition: Callable[[], _T], what: str, *, timeout_s: float = 90.0) -> _T:
    """Return the first true value of `condition`; fail with `what` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.02)


class ApiError(AssertionError):
    """The server answered with a problem."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class DispatcherProcess:
    """One `longshore serve` with its configuration in `directory`; start it again after a kill.

    `packages` are directories into which its user has installed packages. What it answers is held
    to its OpenAPI document, unless `is_measured`: that takes a millisecond each.
    """

    def __init__(
        self,
        directory: Path,
        config: dict[str, Any],
        *,
        packages: Sequence[Path] = (),
        is_measured: bool = False,
    ) -> None:
        self._is_measured = is_measured
        self.directory = directory
        self._python_path = os.pathsep.join(map(str, [_ROOT, *packages]))
        self.config_path = directory / "longshore.yml"
        settings = {"listen": "127.0.0.1:0", "data_dir": str(directory / "data"), **config}
        directory.mkdir(parents=True, exist_ok=True)
        self.config_path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        self.error_path = directory / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self._http = urllib3.PoolManager(maxsize=16, retries=False)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            self._end_instances()
        self.stop()
        if error is not None:
            sys.stderr.write(self.error_path.read_text(encoding="utf-8")[-6000:])
        self._http.clear()

    def _end_instances(self) -> None:
        """Leave no instance behind a test that failed, as far as the server still answers."""
        try:
            for container_id, container in self.containers().items():
                if container["state"] not in FINAL_STATES:
                    self.call("POST", f"/v1/containers/{container_id}/cancel", {})
            for instance_id in sorted(self.instances()):
                self.call("POST", f"/v1/instances/{instance_id}/kill", {})
            wait_for(lambda: not self.instances(), "the instances are gone")
        except (urllib3.exceptions.HTTPError, AssertionError) as failure:
            sys.stderr.write(f"instances may be left: {failure}\n")

    def start(self, *options: str) -> None:
        """Start the process and wait until it serves and its first listing is in."""
        begin = self.launch(*options)
        self.url = wait_for(
            lambda: self._announced(begin),
            "the server announces its address",
            timeout_s=START_TIMEOUT_S,
        )
        wait_for(self.ready, "the server is ready", timeout_s=START_TIMEOUT_S)

    def launch(self, *options: str) -> int:
        """Start the process; return where in `error_path` it begins to write."""
        with self.error_path.open("ab") as log:
            begin = log.tell()
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "longshore",
                    "serve",
                    "-c",
                    str(self.config_path),
                    *options,
                ],
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": self._python_path, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return begin

    def _announced(self, begin: int) -> str:
        assert self.process is not None
        content = self.error_path.read_bytes()[begin:]
        assert self.process.poll() is None, content.decode(errors="replace")
        found = _URL.search(content)
        return found.group(1).decode() if found else ""

    def ready(self) -> bool:
        """Return whether the server says that it is ready."""
        try:
            return self._ask("GET", "/health/ready").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def log_lines(self) -> list[str]:
        """Return the lines of its log so far."""
        return self.error_path.read_text(encoding="utf-8").splitlines()

    def health_problems(self) -> list[str]:
        """Return what the server says is wrong."""
        response = self._ask("GET", "/health/ready")
        return [each["message"] for each in response.json()["problems"]]

    def kill(self) -> None:
        """End it as a crash would: SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """End it as an operator would: SIGTERM; return its exit status."""
        if self.process is None or self.process.poll() is not None:
            return self.process.returncode if self.process is not None else 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server did not stop within 30 s of SIGTERM") from None

    # ---- HTTP ------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the JSON that a request is answered with; raises `ApiError` on a 4xx or 5xx."""
        response = self._ask(method, path, json=body, headers=headers)
        content = response.json() if response.data else None
        if response.status >= 400:
            raise ApiError(response.status, content)
        return content

    def _ask(self, method: str, path: str, **given: Any) -> urllib3.BaseHTTPResponse:
        """Return an answer, which is as the OpenAPI document says."""
        answer = self._http.request(method, f"{self.url}{path}", **given)
        if not self._is_measured:
            any_document().check_target(method, path, answer.status, answer.headers, answer.data)
        return answer

    def submit(self, *command: str, **fields: Any) -> str:
        """Submit one container and return its id."""
        answer = self.call("POST", "/v1/containers", {"command": list(command), **fields})
        return str(answer["id"])

    def submit_many(self, requests: Sequence[dict[str, Any]]) -> list[str]:
        """Submit a list, all or nothing, and return the ids."""
        answer = self.call("POST", "/v1/containers", list(requests))
        return [item["id"] for item in answer["items"]]

    def container(self, container_id: str) -> dict[str, Any]:
        """Return one container."""
        answer: dict[str, Any] = self.call("GET", f"/v1/containers/{container_id}")
        return answer

    def containers(self) -> dict[str, dict[str, Any]]:
        """Return all containers by id."""
        found: dict[str, dict[str, Any]] = {}
        cursor = ""
        while True:
            page = self.call("GET", f"/v1/containers?limit=1000{cursor}")
            found |= {item["id"]: item for item in page["items"]}
            if page["next_cursor"] is None:
                return found
            cursor = f"&cursor={page['next_cursor']}"

    def wait_state(self, container_id: str, *states: str, timeout_s: float = 60) -> dict[str, Any]:
        """Wait until a container is in one of `states` and return it."""

        def look() -> dict[str, Any] | None:
            container = self.container(container_id)
            return container if container["state"] in states else None

        found = wait_for(look, f"{container_id} is {' or '.join(states)}", timeout_s=timeout_s)
        assert found is not None
        return found

    def wait_final(self, container_id: str, *, timeout_s: float = 60) -> dict[str, Any]:
        """Wait until a container has ended and return it."""
        return self.wait_state(container_id, *FINAL_STATES, timeout_s=timeout_s)

    def log(self, container_id: str, stream: str = "stdout", *, follow: bool = True) -> bytes:
        """Return a stream of a container's log, by default to its very end."""
        response = self._ask(
            "GET",
            f"/v1/containers/{container_id}/logs?stream={stream}"
            f"&follow={'true' if follow else 'false'}",
            timeout=60,
        )
        assert response.status == 200, response.data
        return bytes(response.data)

    def instances(self) -> dict[str, dict[str, Any]]:
        """Return all instances by id."""
        items = self.call("GET", "/v1/instances")["items"]
        return {item["id"]: item for item in items}

    def metrics(self) -> str:
        """Return the exposition."""
        response = self._ask("GET", "/metrics")
        assert response.status == 200
        return response.data.decode()


def processes_marked(instance_ids: Sequence[str]) -> list[int]:
    """Return the processes that carry one of these instances' mark in their environment."""
    marks = {f"LONGSHORE_INSTANCE_ID={instance_id}".encode() for instance_id in instance_ids}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if marks.intersection(variables):
            found.append(int(entry.name))
    return sorted(found)
