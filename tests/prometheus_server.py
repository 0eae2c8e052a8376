"""A real Prometheus on a free port of this machine, which scrapes one server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import urllib3
import yaml

from tests.dispatcher_process import wait_for

_LISTENS = re.compile(r'msg="Listening on" address=(\S+)')
Series = dict[tuple[tuple[str, str], ...], list[float]]
"""The values of series by their sorted labels, without those that are no number."""


class Prometheus:
    """Scrapes `target` (HOST:PORT) as job `job`, as long as the context lasts."""

    def __init__(
        self, program: str, directory: Path, *, target: str, job: str, each_s: float
    ) -> None:
        self._program, self._directory = program, directory
        scrape = {
            "job_name": job,
            "scrape_interval": f"{round(each_s * 1000)}ms",
            "scrape_timeout": f"{round(each_s * 1000)}ms",
            "static_configs": [{"targets": [target]}],
        }
        directory.mkdir(parents=True)
        self._config = directory / "prometheus.yml"
        self._config.write_text(yaml.safe_dump({"scrape_configs": [scrape]}))
        self._log = directory / "prometheus.log"
        self._http = urllib3.PoolManager(retries=False, timeout=30)
        self._process: subprocess.Popen[bytes] | None = None
        self._url = ""

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    self._program,
                    f"--config.file={self._config}",
                    f"--storage.tsdb.path={self._directory / 'data'}",
                    "--web.listen-address=127.0.0.1:0",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._url = f"http://{wait_for(self._address, 'Prometheus listens', timeout_s=60)}"
            wait_for(self._is_ready, "Prometheus is ready", timeout_s=60)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(timeout=60)
        self._http.clear()

    def _address(self) -> str:
        assert self._process is not None
        text = self._log.read_text()
        assert self._process.poll() is None, text
        found = _LISTENS.search(text)
        return found.group(1) if found else ""

    def _is_ready(self) -> bool:
        return self._http.request("GET", f"{self._url}/-/ready").status == 200

    def at(self, query: str, at: float) -> Series:
        """Return what a query gives at a time, in seconds since the epoch."""
        return self._ask("query", query=query, time=f"{at:.3f}")

    def between(self, query: str, since: float, until: float, step_s: float) -> Series:
        """Return what a query gives in a range of time."""
        span = {"start": f"{since:.3f}", "end": f"{until:.3f}"}
        return self._ask("query_range", query=query, step=f"{step_s:.3f}", **span)

    def _ask(self, what: str, **fields: str) -> Series:
        answer = self._http.request("POST", f"{self._url}/api/v1/{what}", fields=fields)
        body: dict[str, Any] = answer.json()
        assert body["status"] == "success", body
        found: Series = {}
        for each in body["data"]["result"]:
            pairs = each.get("values") or [each["value"]]
            values = [float(text) for _, text in pairs if text != "NaN"]
            if values:
                found[tuple(sorted(each["metric"].items()))] = values
        return found
