"""A server that speaks as much of EC2's protocol as one test tells it to, over real HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from drivers.ec2.client import ec2_client
from drivers.ec2.parameters import Ec2Parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered to a request; `body` None closes the connection without a word."""

    body: str | None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


HUNG_UP = Answer(body=None)


def refusal(code: str, message: str = "so it is", *, status: int = 400) -> Answer:
    """Return an error as EC2 words it."""
    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    body = f"<Response><Errors>{error}</Errors><RequestID>r-1</RequestID></Response>"
    return Answer(body=body, status=status)


def described(instance_id: str, *, state: str = "running", **tags: str) -> str:
    """Return an instance as EC2 describes it; `_` in the names of tags stands for `-`."""
    items = "".join(
        f"<item><key>{key.replace('_', '-')}</key><value>{value}</value></item>"
        for key, value in tags.items()
    )
    return (
        f"<item><instanceId>{instance_id}</instanceId>"
        f"<instanceState><code>0</code><name>{state}</name></instanceState>"
        "<privateIpAddress>10.0.0.7</privateIpAddress><ipAddress>198.51.100.7</ipAddress>"
        f"<tagSet>{items}</tagSet></item>"
    )


def launched(*instances: str) -> Answer:
    """Return the answer of RunInstances."""
    listed = f"<instancesSet>{''.join(instances)}</instancesSet>"
    return Answer(body=f"<RunInstancesResponse>{listed}</RunInstancesResponse>")


def listing(*instances: str, next_token: str = "") -> Answer:
    """Return a page of DescribeInstances."""
    sets = "".join(f"<item><instancesSet>{each}</instancesSet></item>" for each in instances)
    token = f"<nextToken>{next_token}</nextToken>" if next_token else ""
    body = f"<reservationSet>{sets}</reservationSet>{token}"
    return Answer(body=f"<DescribeInstancesResponse>{body}</DescribeInstancesResponse>")


def done(action: str, inner: str = "<return>true</return>") -> Answer:
    """Return the answer of an action that tells nothing else."""
    return Answer(body=f"<{action}Response>{inner}</{action}Response>")


Respond = Callable[[str, Mapping[str, str]], Answer]


@dataclass(slots=True)
class Ec2Words:
    """A running server: what was asked of it, and what it answers."""

    port: int
    respond: Respond
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def parameters(self, **more: Any) -> Ec2Parameters:
        """Return parameters of a driver that speaks with this server."""
        return Ec2Parameters(
            region="eu-test-1",
            endpoint_url=f"http://127.0.0.1:{self.port}",
            access_key_id="AKIATEST",
            secret_access_key="shh",
            read_timeout_s=60.0,
            **more,
        )

    @contextmanager
    def client(self, **more: Any) -> Iterator[Any]:
        """Yield a client of this server, and close it."""
        made = ec2_client(self.parameters(**more))
        try:
            yield made
        finally:
            made.close()

    def asked(self, action: str) -> list[dict[str, str]]:
        """Return the arguments of each request for an action, in order."""
        return [arguments for name, arguments in self.requests if name == action]


@contextmanager
def speaking(respond: Respond) -> Iterator[Ec2Words]:
    """Yield a server on a free port of this machine that answers as `respond` says."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            arguments = dict(parse_qsl(body, keep_blank_values=True))
            action = arguments["Action"]
            with lock:
                words.requests.append((action, arguments))
                answer = words.respond(action, arguments)
            if answer.body is None:
                return
            self.send_response(answer.status)
            for name, value in (*answer.headers, ("Content-Length", str(len(answer.body)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = False

    with Server(("127.0.0.1", 0), Handler) as server:
        words = Ec2Words(server.server_address[1], respond)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield words
        finally:
            server.shutdown()
            thread.join()
