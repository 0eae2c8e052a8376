"""The watch for EC2's word that it takes an instance back, against a metadata service over HTTP."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from longshore.drivers.ec2.power import INTERRUPTION_WATCH, METADATA_VARIABLE

TIME = "2026-11-22T10:30:00Z"
NOTICE = f'{{"action": "terminate", "time": "{TIME}"}}'
Answers = Sequence[tuple[int, str]]


@contextmanager
def metadata_service(answers: Answers) -> Iterator[tuple[str, list[str]]]:
    """Yield the address of a service that gives these answers in turn, and what it was asked."""
    asked: list[str] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            asked.append(f"PUT {self.path} {self.headers['X-aws-ec2-metadata-token-ttl-seconds']}")
            self._answer(200, f"token-{len(asked)}")

        def do_GET(self) -> None:
            asked.append(f"GET {self.path} {self.headers['X-aws-ec2-metadata-token']}")
            self._answer(*(left.pop(0) if len(left) > 1 else left[0]))

        def _answer(self, status: int, body: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/", asked
        finally:
            server.shutdown()
            thread.join()


def watched(answers: Answers) -> tuple[str, list[str]]:
    """Return what the watch prints before it ends well, and what it asked for."""
    with metadata_service(answers) as (url, asked):
        # A proxy would be asked in vain, and about something that is none of its business.
        environment = {**os.environ, METADATA_VARIABLE: url, "http_proxy": "http://127.0.0.1:9"}
        done = subprocess.run(
            ["sh", "-c", INTERRUPTION_WATCH],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            timeout=90,
            check=True,
        )
    return done.stdout, asked


def test_a_notice_ends_the_watch_with_its_time() -> None:
    output, asked = watched([(200, NOTICE)])
    assert output == f"{TIME}\n"
    assert asked == [
        "PUT /latest/api/token 21600",
        "GET /latest/meta-data/spot/instance-action token-1",
    ]


def test_until_there_is_a_notice_it_asks_again_with_a_new_token_when_the_old_is_stale() -> None:
    output, asked = watched([(404, "none"), (401, "stale"), (200, NOTICE)])
    assert output == f"{TIME}\n"
    assert [each.split()[0] for each in asked] == ["PUT", "GET", "GET", "PUT", "GET"]
    assert [each.split()[2] for each in asked if "GET" in each] == ["token-1", "token-1", "token-4"]


@pytest.mark.parametrize("notice", ['{"action": "stop"}', '{"time": null}', '{"time": "soon"}'])
def test_a_notice_without_a_time_is_a_notice(notice: str) -> None:
    output, _ = watched([(200, notice)])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n", output)
