"""moto's server as a process of its own, spoken to over HTTP as the cloud is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.sshd_host import wait_until

REGION = "us-east-1"
CREDENTIALS = {"access_key_id": "AKIATESTBED", "secret_access_key": "secret-of-the-test-bed"}

_URL = re.compile(rb"Running on (http://127\.0\.0\.1:\d+)")
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0


class MotoProcess:
    """One server with an empty account; it runs from the start until `stop`."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / "moto.log"
        keys = {"AWS_ACCESS_KEY_ID": "moto", "AWS_SECRET_ACCESS_KEY": "moto"}
        # Reading its images takes seconds, and one is enough.
        settings = {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
                env={**os.environ, **keys, **settings, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            wait_until(lambda: bool(self._announced()), "moto", timeout_s=_START_TIMEOUT_S)
        except BaseException:
            self.stop()
            raise
        self.url = self._announced()
        self._clients: list[Any] = []

    def client(self, region: str = REGION) -> Any:
        """Return a client that sees the account as it is: nothing stands in between."""
        made = boto3.client("ec2", **client_arguments(self.url, region))
        self._clients.append(made)
        return made

    def stop(self) -> None:
        """End the server, and wait for it. Twice is fine."""
        for client in getattr(self, "_clients", []):
            client.close()
        if self._process.poll() is not None:
            return
        self._process.terminate()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self._process.kill()
        self._process.wait()

    def _announced(self) -> str:
        content = self._log.read_bytes()
        assert self._process.poll() is None, content.decode(errors="replace")
        found = _URL.search(content)
        return found.group(1).decode() if found else ""


def client_arguments(url: str, region: str = REGION) -> dict[str, Any]:
    """Return what a client of `boto3` needs to speak to a server of the bed."""
    return {
        "endpoint_url": url,
        "region_name": region,
        "aws_access_key_id": CREDENTIALS["access_key_id"],
        "aws_secret_access_key": CREDENTIALS["secret_access_key"],
        "config": Config(retries={"total_max_attempts": 1}, read_timeout=60),
    }
