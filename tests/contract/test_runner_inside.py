"""The API inside of attempts: the real runner, a real program at its socket, what is relayed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import inside
from longshore.pool.runner.inside import Unacceptable, parse_head
from tests.runner_harness import Attached, Runner, eventually

WAIT = "while :; do sleep 1; done"


@pytest.fixture
def runner() -> Iterator[Runner]:
    with Runner() as made:
        yield made


@pytest.fixture
def session(runner: Runner) -> Attached:
    return runner.attach()[0]


def start(session: Attached, name: str = "c-1-1") -> None:
    reply = session.start(name, "sh", "-c", WAIT, api=True)
    assert reply["ok"], reply


def door(runner: Runner, name: str = "c-1-1") -> Path:
    return Path(runner.places.work) / f"{name}+api" / "api.sock"


def connect(path: Path) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(30)
    client.connect(str(path))
    return client


def said(client: socket.socket) -> bytes:
    """Return all that comes until the other end closes."""
    with client, contextlib.suppress(ConnectionResetError):
        found = b""
        while data := client.recv(65_536):
            found += data
    return found


def post(body: bytes = b"{}", *, more: bytes = b"", path: bytes = b"/v1/containers") -> bytes:
    length = b"Content-Length: %d\r\n" % len(body)
    return b"POST " + path + b" HTTP/1.1\r\nHost: x\r\n" + length + more + b"\r\n" + body


def relayed(session: Attached) -> tuple[dict[str, Any], bytes]:
    """Return the next request that is relayed, with its body."""
    head = session.wait_for("api_request")
    body = b""
    while len(body) < head["length"]:
        piece = session.wait_for("api_body", lambda each: each["exchange"] == head["exchange"])
        body += base64.b64decode(piece["data"])
    return head, body


def reply(session: Attached, exchange: int, body: bytes, *, status: int = 201) -> dict[str, Any]:
    return session.request(
        "api_answer",
        exchange=exchange,
        status=status,
        headers={"content-type": "application/json", "set-cookie": "no"},
        length=len(body),
        data=base64.b64encode(body).decode(),
        last=True,
    )


def test_a_program_finds_the_socket_and_its_request_is_relayed_and_answered(
    session: Attached,
) -> None:
    program = (
        "import os, socket, sys\n"
        "path = os.environ['LONGSHORE_URL'][len('unix://'):]\n"
        "client = socket.socket(socket.AF_UNIX); client.connect(path)\n"
        "client.sendall(b'POST /v1/containers?x=1 HTTP/1.1\\r\\nHost: x\\r\\n'\n"
        "  b'Idempotency-Key: k\\r\\nAuthorization: Bearer t\\r\\nX-Forwarded-User: root\\r\\n'\n"
        "  b'Content-Type: application/json\\r\\nContent-Length: 7\\r\\n\\r\\n[1,2,3]')\n"
        "print(client.makefile('rb').read().decode())\n"
    )
    started = session.start("c-1-1", "python3", "-c", program, api=True)
    assert started["ok"], started
    head, body = relayed(session)
    assert (head["attempt_id"], head["method"]) == ("c-1-1", "POST")
    assert (head["path"], body) == ("/v1/containers?x=1", b"[1,2,3]")
    assert head["headers"] == {"content-type": "application/json", "idempotency-key": "k"}
    assert reply(session, head["exchange"], b'{"id":"c-2"}')["ok"]
    assert session.finish("c-1-1")["code"] == 0
    answer = session.log("c-1-1").decode()
    assert answer.startswith("HTTP/1.1 201 Created")
    assert answer.strip().endswith('{"id":"c-2"}')
    assert "set-cookie" not in answer


def test_who_was_not_promised_the_api_finds_none(runner: Runner, session: Attached) -> None:
    session.run("c-1-1", "sh", "-c", 'echo "[${LONGSHORE_URL-none}]"')
    assert session.log("c-1-1") == b"[none]\n"
    assert not door(runner).parent.exists()


def test_a_large_body_and_a_large_answer_come_whole(runner: Runner, session: Attached) -> None:
    start(session)
    body = os.urandom(3_000_000)
    client = connect(door(runner))
    sender = threading.Thread(target=client.sendall, args=(post(body),))
    sender.start()
    head, got = relayed(session)
    sender.join()
    assert got == body
    number = head["exchange"]
    pieces = [body[at : at + 60_000] for at in range(0, len(body), 60_000)]
    answers: list[bytes] = []
    reader = threading.Thread(target=lambda: answers.append(said(client)))
    reader.start()
    for index, piece in enumerate(pieces):
        begins = {"status": 200, "headers": {}, "length": len(body)} if index == 0 else {}
        data = base64.b64encode(piece).decode()
        last = piece is pieces[-1]
        assert session.request("api_answer", exchange=number, data=data, last=last, **begins)["ok"]
    reader.join(30)
    assert answers[0].partition(b"\r\n\r\n")[2] == body


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /\r\n\r\n", 400),
        (b"GET http://elsewhere/v1 HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1 x HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1\tx HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1#x HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/\xff HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1 HTTP/2.0\r\n\r\n", 400),
        (b"CONNECT /v1 HTTP/1.1\r\n\r\n", 501),
        (b"TRACE /v1 HTTP/1.1\r\n\r\n", 501),
        (b"GET /v1 HTTP/1.1\r\nA : b\r\n\r\n", 400),
        (b"GET /v1 HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400),
        (b"GET /v1 HTTP/1.1\r\nA: b\nB: c\r\n\r\n", 400),
        (b"GET /v1 HTTP/1.1\r\nA: b\rB: c\r\n\r\n", 400),
        (b"GET /v1 HTTP/1.1\r\nA: \0\r\n\r\n", 400),
        (b"GET /v1 HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400),
        (b"POST /v1 HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", 400),
        (b"POST /v1 HTTP/1.1\r\nContent-Length: +1\r\n\r\nx", 400),
        (b"POST /v1 HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\nx", 400),
        (b"POST /v1 HTTP/1.1\r\nContent-Length: -1\r\n\r\nx", 400),
        (b"POST /v1 HTTP/1.1\r\nContent-Length: 16777217\r\n\r\nx", 413),
        (b"POST /v1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        (
            b"POST /v1 HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nx",
            501,
        ),
        (b"POST /v1 HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx", 417),
        (post(b"{}") + post(b"{}"), 400),
        (b"GET /v1 HTTP/1.1\r\nA: " + b"x" * 20_000, 431),
    ],
)
def test_what_is_no_plain_request_goes_nowhere(
    runner: Runner, session: Attached, request_: bytes, status: int
) -> None:
    start(session)
    client = connect(door(runner))
    client.sendall(request_)
    assert said(client).startswith(b"HTTP/1.1 %d " % status)
    with connect(door(runner)) as other:
        other.sendall(post(b'"behind"'))
        assert relayed(session)[1] == b'"behind"'


@pytest.mark.parametrize("path", ["/v1/containers/c-1?a=%0d%0a", "/", "/v1/jobs/j-1/dispatch"])
def test_a_path_is_relayed_as_it_is(path: str) -> None:
    assert parse_head(b"GET " + path.encode() + b" HTTP/1.1").path == path


def test_a_head_that_is_odd_is_told() -> None:
    with pytest.raises(Unacceptable, match="twice"):
        parse_head(b"GET / HTTP/1.1\r\naccept: a\r\nAccept: b")


def test_an_answer_cannot_smuggle_a_header(runner: Runner, session: Attached) -> None:
    start(session)
    client = connect(door(runner))
    client.sendall(post())
    head, _ = relayed(session)
    fields = {"exchange": head["exchange"], "status": 200, "length": 0, "data": "", "last": True}
    refused = session.request("api_answer", headers={"location": "a\r\nx: y"}, **fields)
    assert refused["code"] == "invalid"
    assert session.request("api_answer", headers={"location": "/v1"}, **fields)["ok"]
    assert b"location: /v1\r\n" in said(client)


def test_only_so_many_connections_are_taken_and_all_are_served_in_turn(
    runner: Runner, session: Attached
) -> None:
    start(session)
    clients = [connect(door(runner)) for _ in range(inside.CONNECTIONS_MOST)]
    late = connect(door(runner))
    late.sendall(post(b'"late"'))
    for _ in range(5):  # those that were sent before, and some turns of the session after
        session.wait_for("heartbeat")
    assert not [each for each in session.pushed if each["type"] == "api_request"]
    clients.pop().close()
    assert relayed(session)[1] == b'"late"'
    for each in (*clients, late):
        each.close()


def test_ten_thousand_connections_leave_exits_and_logs_as_they_are(
    runner: Runner, session: Attached
) -> None:
    start(session)
    taken = []
    for _ in range(10_000):
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        try:
            client.connect(str(door(runner)))
        except BlockingIOError:
            client.close()
        else:
            taken.append(client)
    assert len(taken) <= inside.CONNECTIONS_MOST + inside.WAITING_MOST + 1
    assert session.run("c-2-1", "echo", "unmoved")["code"] == 0
    assert session.log("c-2-1") == b"unmoved\n"
    for client in taken:
        client.close()


def test_who_hangs_up_is_told_of(runner: Runner, session: Attached) -> None:
    start(session)
    with connect(door(runner)) as client:
        client.sendall(post())
        head, _ = relayed(session)
    assert session.wait_for("api_gone")["exchange"] == head["exchange"]
    assert reply(session, head["exchange"], b"")["code"] == "unknown"


def test_the_socket_ends_with_its_attempt(runner: Runner, session: Attached) -> None:
    start(session)
    client = connect(door(runner))
    client.sendall(post())
    relayed(session)
    session.request("kill", attempt_id="c-1-1", signal="KILL")
    session.exit_of("c-1-1")
    assert said(client) == b""
    with socket.socket(socket.AF_UNIX) as other, pytest.raises(ConnectionRefusedError):
        other.connect(str(door(runner)))
    assert session.request("release", attempt_id="c-1-1")["ok"]
    assert not door(runner).parent.exists()


def test_without_a_session_who_asks_is_told_to_ask_again(runner: Runner, session: Attached) -> None:
    start(session)
    waiting = connect(door(runner))
    waiting.sendall(post())
    relayed(session)
    session.close()
    answers = [said(waiting)]
    client = connect(door(runner))
    client.sendall(post())
    answers.append(said(client))
    for each in answers:
        head, _, body = each.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 2" in head
        assert "Idempotency-Key" in json.loads(body)["detail"]
    again, _ = runner.attach()
    with connect(door(runner)) as client:
        client.sendall(post(b'"again"'))
        assert relayed(again)[1] == b'"again"'


def test_a_session_that_was_killed_is_followed_by_one_that_takes_requests(
    runner: Runner, session: Attached
) -> None:
    start(session)
    session.kill()
    again, _ = runner.attach()
    with connect(door(runner)) as client:
        client.sendall(post(b'"again"'))
        assert relayed(again)[1] == b'"again"'


def test_only_its_user_may_connect_and_only_we_may_put_anything_there(
    runner: Runner, session: Attached
) -> None:
    start(session)
    path = door(runner)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.parent.stat().st_uid == os.geteuid()
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o022 == 0


def test_a_session_follows_that_sweeps_what_nobody_has(runner: Runner, session: Attached) -> None:
    left = Path(runner.places.work) / "c-9-9+api"
    left.mkdir()
    (left / "api.sock").touch()
    session.close()
    runner.attach()
    eventually(lambda: not left.exists())
