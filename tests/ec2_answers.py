"""A server that speaks as much of EC2's protocol as one test tells it to, over real HTTP."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from longshore.drivers.ec2.client import ec2_client
from longshore.drivers.ec2.instance_set import Ec2InstanceSet
from longshore.drivers.ec2.parameters import Ec2Parameters
from longshore.drivers.interface import CLUSTER_TAG, Instance, InstanceType, Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is answered to a request; `body` None closes the connection without a word."""

    body: str | None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


HUNG_UP = Answer(body=None)
TYPE = InstanceType(
    name="small",
    provider_type="m7i.large",
    resources=Resources(cpu_millis=2000, memory_bytes=8 * 2**30),
    price_usd_per_hour=Decimal("0.1"),
)


def refusal(code: str, message: str = "so it is", *, status: int = 400) -> Answer:
    """Return an error as EC2 words it."""
    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    body = f"<Response><Errors>{error}</Errors><RequestID>r-1</RequestID></Response>"
    return Answer(body=body, status=status)


def described(
    instance_id: str,
    *,
    state: str = "running",
    why: tuple[str, str] = ("", ""),
    when: tuple[str, str] = ("", ""),
    **tags: str,
) -> str:
    """Return an instance as EC2 describes it; `_` in the names of tags stands for `-`.

    `why` are code and message of the reason for its state, `when` its launch time and what is said
    of its last transition.
    """
    launch_time, transition = when
    times = f"<launchTime>{launch_time}</launchTime><reason>{transition}</reason>"
    code, message = why
    reason = f"<stateReason><code>{code}</code><message>{message}</message></stateReason>"
    items = "".join(
        f"<item><key>{key.replace('_', '-')}</key><value>{value}</value></item>"
        for key, value in tags.items()
    )
    return (
        f"<item><instanceId>{instance_id}</instanceId>"
        f"<instanceState><code>0</code><name>{state}</name></instanceState>"
        f"{reason if code else ''}{times if launch_time else ''}"
        "<placement><availabilityZone>eu-test-1a</availabilityZone></placement>"
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


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJPOgXw172AGPhjJKDZBJ/T8vN+4WjMaIQgWzL9NGMcJ"
NO_KEY = refusal("InvalidKeyPair.NotFound")


def key_pairs(inner: str) -> Answer:
    """Return the answer of DescribeKeyPairs."""
    item = f"<item><keyName>x</keyName>{inner}</item>" if inner else ""
    return done("DescribeKeyPairs", f"<keySet>{item}</keySet>")


OUR_KEY = key_pairs(f"<publicKey>{KEY} longshore</publicKey>")


IMAGE = done("DescribeImages", "<imagesSet><item><imageId>ami-1</imageId></item></imagesSet>")


class Script:
    """Answers each action with what is next for it, the last again and again."""

    def __init__(self, **answers: list[Answer]) -> None:
        self._answers = {"DescribeKeyPairs": [OUR_KEY], "DescribeImages": [IMAGE], **answers}

    def __call__(self, action: str, _: Mapping[str, str]) -> Answer:
        left = self._answers.get(action, [refusal("InvalidAction", action)])
        return left.pop(0) if len(left) > 1 else left[0]


class Site:
    """A server of made-up words, and instance sets that speak with it."""

    def __init__(self, words: Ec2Words, client: Any) -> None:
        self.words = words
        self._client = client

    def open(self, respond: Respond, **parameters: Any) -> Ec2InstanceSet:
        """Return an instance set, with nothing asked yet."""
        self.words.requests.clear()
        return self.another(respond, **parameters)

    def another(self, respond: Respond, **parameters: Any) -> Ec2InstanceSet:
        """Return an instance set that knows nothing of others, as of another process."""
        self.words.respond = respond
        given = self.words.parameters(images={"x86_64": "ami-1"}, **parameters)
        return Ec2InstanceSet(self._client, given, ssh_user="admin", clock=lambda: 0.0)

    def actions(self) -> list[str]:
        """Return what was asked for, in order, but for what the image is like."""
        asked = [action for action, _ in self.words.requests]
        return [action for action in asked if action != "DescribeImages"]

    def subnets(self) -> list[str]:
        """Return where instances were asked for, in order."""
        return [each.get("SubnetId", "") for each in self.words.asked("RunInstances")]


@contextmanager
def open_site() -> Iterator[Site]:
    """Yield a site with one client, which takes its time to be made."""
    with speaking(Script()) as words, words.client() as client:
        yield Site(words, client)


def create(instance_set: Ec2InstanceSet, **more: Any) -> Instance:
    """Create an instance of no particular kind, but for what is told."""
    wanted: dict[str, Any] = {
        "instance_type": TYPE,
        "image": "",
        "tags": {CLUSTER_TAG: "c"},
        "init_command": "echo the-secret",
        "public_key": KEY,
        "token": "token-1",
    }
    return instance_set.create(**(wanted | more))
