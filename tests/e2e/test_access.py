"""Must show: who is let in, by a real server: tokens, the Unix socket, TLS, and the audit log."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import ssl
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
import urllib3
from alembic import command

from longshore.client import Client, UnreachableError
from longshore.dispatcher.store import schema, sqlite
from tests.conftest import not_tested
from tests.dispatcher_process import ApiError, DispatcherProcess, wait_for
from tests.local_http import local_call

NOBODY = "nobody"
CONFIG: dict[str, Any] = {
    "auth": {"mode": "required"},
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2}
    },
    "engine": {"name": "process", "run_as": NOBODY},
    "pool": {"idle_timeout_s": 1},
}
SPEC = (
    b'{"name":"old","image":"busybox","command":["true"],"env":[],"resources":'
    b'{"cpu_millis":1000,"memory_bytes":1},"constraints":{}}'
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DispatcherProcess]:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with DispatcherProcess(tmp_path, CONFIG) as process:
        yield process


def socket_of(server: DispatcherProcess) -> Path:
    return server.directory / "data" / "longshore.sock"


def made_token(server: DispatcherProcess, **fields: Any) -> tuple[str, dict[str, str]]:
    """Return the id of a new token and the headers that show it."""
    wanted = {"user": "ann", "projects": ["p"], **fields}
    status, answer = local_call(socket_of(server), "POST", "/v1/tokens", wanted)
    assert status == 201, answer
    return answer["id"], {"Authorization": f"Bearer {answer['token']}"}


def read_to_its_end(stream: urllib3.BaseHTTPResponse) -> bool:
    """Read a stream for as long as it goes on, and return whether it came to a proper end."""
    try:
        while stream.read1():
            pass
    except urllib3.exceptions.ProtocolError:
        return False
    finally:
        stream.close()
    return True


def refused(server: DispatcherProcess, headers: dict[str, str], path: str = "/v1/whoami") -> str:
    with pytest.raises(ApiError) as error:
        server.call("GET", path, **headers)
    assert error.value.status == 401
    return str(error.value.body["detail"])


def test_a_token_lets_in_until_it_is_revoked_also_after_a_crash(server: DispatcherProcess) -> None:
    assert "Authorization: Bearer" in refused(server, {})
    assert any("nobody has a token yet" in line for line in server.log_lines())
    token_id, headers = made_token(server)
    text = headers["Authorization"].removeprefix("Bearer ")
    me = server.call("GET", "/v1/whoami", **headers)
    assert (me["user"], me["role"], me["projects"], me["token"]) == ("ann", "user", ["p"], token_id)
    for user, password in (("ann", text), (text, "")):
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        assert server.call("GET", "/v1/whoami", Authorization=f"Basic {basic}") == me
    container = server.call("POST", "/v1/containers", {"command": ["true"]}, **headers)
    assert (container["user"], container["project"]) == ("ann", "p")

    server.kill()
    server.start()
    assert server.call("GET", "/v1/whoami", **headers) == me
    local_call(socket_of(server), "POST", f"/v1/tokens/{token_id}/revoke", {})
    assert "was revoked" in refused(server, headers)
    server.kill()
    server.start()
    assert "was revoked" in refused(server, headers)
    for file in sorted((server.directory).rglob("*")):
        if file.is_file():
            assert text.encode() not in file.read_bytes(), file


def test_a_token_expires_by_itself_and_its_streams_with_it(server: DispatcherProcess) -> None:
    until = time.time() + 6
    moment = (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(until)) + f".{int(until % 1 * 1000):03}Z"
    )
    _, headers = made_token(server, expires_at=moment)
    with urllib3.PoolManager(retries=False) as http:
        stream = http.request(
            "GET", f"{server.url}/v1/events", headers=headers, preload_content=False, timeout=30
        )
        assert stream.status == 200
        began = time.monotonic()
        assert not read_to_its_end(stream), "it is cut off"
        assert time.monotonic() - began < 30
    assert "expired at" in refused(server, headers)


def test_a_revoked_token_ends_what_it_follows(server: DispatcherProcess) -> None:
    token_id, headers = made_token(server)
    with urllib3.PoolManager(retries=False) as http:
        stream = http.request(
            "GET", f"{server.url}/v1/events", headers=headers, preload_content=False, timeout=30
        )
        assert stream.read1()
        local_call(socket_of(server), "POST", f"/v1/tokens/{token_id}/revoke", {})
        began = time.monotonic()
        assert not read_to_its_end(stream), "it is cut off"
        assert time.monotonic() - began < 10


@pytest.fixture
def open_server() -> Iterator[DispatcherProcess]:
    """Run a server in a directory that everybody may enter, but for its data."""
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        with DispatcherProcess(Path(directory), CONFIG) as process:
            yield process


def test_what_was_begun_before_a_token_was_revoked_is_not_carried_out(
    server: DispatcherProcess,
) -> None:
    token_id, headers = made_token(server)
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps({"command": ["true"], "name": "late"}).encode()
    with socket.create_connection((host, int(port)), timeout=30) as late:
        late.sendall(
            b"POST /v1/containers HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + f"Authorization: {headers['Authorization']}\r\n".encode()
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body[:5]
        )

        def is_under_way() -> bool:
            _, page = local_call(socket_of(server), "GET", f"/v1/audit?token={token_id}")
            return bool(page["items"])

        wait_for(is_under_way, "the request is known")
        local_call(socket_of(server), "POST", f"/v1/tokens/{token_id}/revoke", {})
        with suppress(ConnectionError):
            late.sendall(body[5:])
            assert late.recv(1000) == b""
    _, page = local_call(socket_of(server), "GET", "/v1/containers?name=late")
    assert page["items"] == []


def test_an_admin_comes_in_though_all_places_are_taken(server: DispatcherProcess) -> None:
    host, port = server.url.removeprefix("http://").split(":")

    def is_full() -> bool:
        try:
            urllib3.request("GET", f"{server.url}/health/live", retries=False, timeout=10)
        except urllib3.exceptions.HTTPError:
            return True
        return False

    def came_in() -> bool:
        with ExitStack() as stack:
            for _ in range(520):
                stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            # Who says nothing for 10 s loses its place: on a slow machine it takes another try.
            if not is_full():
                return False
            assert local_call(socket_of(server), "GET", "/v1/whoami")[0] == 200
            return is_full()

    wait_for(came_in, "an admin came in while all places were taken")


def test_the_socket_is_for_the_servers_own_user_alone(open_server: DispatcherProcess) -> None:
    server = open_server
    place = socket_of(server)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    status, me = local_call(place, "GET", "/v1/whoami")
    assert (status, me["user"], me["role"], me["door"]) == (200, "root", "admin", "socket")
    _, headers = made_token(server)
    script = (
        "import http.client, socket, sys\n"
        "c = http.client.HTTPConnection('localhost')\n"
        "c.sock = socket.socket(socket.AF_UNIX)\n"
        "try:\n"
        f"    c.sock.connect({str(place)!r})\n"
        "except OSError as error:\n"
        "    print(type(error).__name__); sys.exit()\n"
        "c.request('GET', '/v1/whoami')\n"
        "a = c.getresponse(); print(a.status, a.read().decode())\n"
    )

    def tried() -> str:
        made = server.call(
            "POST", "/v1/containers", {"command": ["/usr/bin/python3", "-c", script]}, **headers
        )
        path = f"/v1/containers/{made['id']}"
        wait_for(
            lambda: server.call("GET", path, **headers)["exit_code"] is not None, "it has ended"
        )
        answer = urllib3.request(
            "GET", f"{server.url}/v1/containers/{made['id']}/logs?follow=true", headers=headers
        )
        return answer.data.decode()

    assert tried() == "PermissionError\n"
    # An admin who opens the directory and the socket opens no door all the same.
    place.parent.chmod(0o755)
    place.chmod(0o666)
    said = tried()
    assert said.startswith("403 ")
    assert "the server's own user" in said


def test_a_socket_that_a_crash_left_is_replaced(server: DispatcherProcess) -> None:
    server.kill()
    assert socket_of(server).is_socket()
    server.start()
    assert local_call(socket_of(server), "GET", "/v1/whoami")[0] == 200
    server.stop()
    assert not socket_of(server).exists()


def test_each_caller_asks_as_often_as_it_may(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    auth = {"mode": "required", "requests_per_s": 0.05, "burst": 5, "streams": 1}
    with DispatcherProcess(tmp_path, {**CONFIG, "auth": auth}) as server:
        _, ann = made_token(server)
        _, bob = made_token(server, user="bob")
        for _ in range(5):
            server.call("GET", "/v1/whoami", **ann)
        with pytest.raises(ApiError) as error:
            server.call("GET", "/v1/whoami", **ann)
        assert error.value.status == 429
        answer = urllib3.request("GET", f"{server.url}/v1/whoami", headers=ann, retries=False)
        assert answer.status == 429
        assert 1 <= int(answer.headers["Retry-After"]) <= 20
        assert server.call("GET", "/v1/whoami", **bob)["user"] == "bob"
        for _ in range(20):
            assert local_call(socket_of(server), "GET", "/v1/whoami")[0] == 200
        with urllib3.PoolManager(retries=False, maxsize=2) as http:
            url = f"{server.url}/v1/events"
            first = http.request("GET", url, headers=bob, preload_content=False, timeout=30)
            assert first.read1()
            second = http.request("GET", url, headers=bob, preload_content=False, timeout=30)
            assert (second.status, second.headers["Retry-After"]) == (429, "5")
            second.close()
            first.close()


def test_what_was_acknowledged_is_in_the_audit_log_after_a_crash(
    server: DispatcherProcess,
) -> None:
    token_id, headers = made_token(server)
    with pytest.raises(ApiError):
        server.call("POST", "/v1/tokens", {"user": "x", "role": "admin"}, **headers)
    made = [
        server.call("POST", "/v1/containers", {"command": ["true"]}, **headers)["id"]
        for _ in range(20)
    ]
    server.kill()
    server.start()
    status, page = local_call(socket_of(server), "GET", f"/v1/audit?token={token_id}")
    assert status == 200
    entries = page["items"]
    submitted = [each for each in entries if each["action"] == "POST /v1/containers"]
    # The last ones may have lost what came of them, never that they were asked for.
    assert len(submitted) == len(made)
    assert {each["made"] for each in submitted if each["status"]} <= set(made)
    assert {(each["user"], each["role"], each["door"], each["address"]) for each in entries} == {
        ("ann", "user", "token", "127.0.0.1")
    }
    refusals = [(each["action"], each["status"]) for each in entries if each["status"] == 403]
    assert refusals == [("POST /v1/tokens", 403)]
    _, all_of_it = local_call(socket_of(server), "GET", "/v1/audit?user=root")
    assert [(e["action"], e["door"], e["address"]) for e in all_of_it["items"]] == [
        ("POST /v1/tokens", "socket", "local")
    ]


def test_tls_and_a_certificate_that_is_renewed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        not_tested("run_as needs root")
    first, second = trustme.CA(), trustme.CA()
    files = {"certificate": tmp_path / "server.pem", "private_key": tmp_path / "server.key"}

    def write(ca: trustme.CA) -> None:
        issued = ca.issue_cert("127.0.0.1")
        files["private_key"].write_bytes(issued.private_key_pem.bytes())
        files["certificate"].write_bytes(b"".join(b.bytes() for b in issued.cert_chain_pems))

    write(first)
    config = {**CONFIG, "tls": {name: str(path) for name, path in files.items()}}
    server = DispatcherProcess(tmp_path, config)
    first.cert_pem.write_to_path(str(tmp_path / "first-ca.pem"))
    server._http = urllib3.PoolManager(ca_certs=str(tmp_path / "first-ca.pem"), retries=False)
    with server:
        assert server.url.startswith("https://")
        _, headers = made_token(server)
        assert server.call("GET", "/v1/whoami", **headers)["user"] == "ann"
        host, port = server.url.removeprefix("https://").split(":")
        with (
            Client(f"http://{host}:{port}") as unencrypted,
            pytest.raises(UnreachableError, match="speaks TLS, but its URL begins with http"),
        ):
            unencrypted.whoami()
        write(second)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        second.configure_trust(context)

        def renewed() -> bool:
            try:
                with socket.create_connection((host, int(port))) as raw:
                    context.wrap_socket(raw, server_hostname="127.0.0.1").close()
            except ssl.SSLError:
                return False
            return True

        wait_for(renewed, "the new certificate is used", timeout_s=40)
        # One without its key changes nothing, and is told.
        files["private_key"].write_bytes(first.issue_cert("x").private_key_pem.bytes())
        wait_for(
            lambda: any("was not read again" in each for each in server.log_lines()),
            "the log says that the files do not go together",
            timeout_s=40,
        )
        assert renewed()
        _, health = local_call(socket_of(server), "GET", "/v1/health")
        assert "certificate" in [each["kind"] for each in health["problems"]]
        files["certificate"].write_bytes(first.issue_cert("127.0.0.1").cert_chain_pems[0].bytes())
        looks = len(server.log_lines())
        wait_for(
            lambda: any("was not read again" in each for each in server.log_lines()[looks:]),
            "the log says so of another half",
            timeout_s=40,
        )
        assert renewed(), "the pair before is used, as a whole"


def test_a_store_from_before_tokens_is_taken_over(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    engine = sqlite.writing_engine(data / "longshore.db")
    with engine.begin() as connection:
        command.upgrade(schema.config_for(connection), "0014")
        connection.exec_driver_sql(
            "INSERT INTO store_marker VALUES ('0123456789abcdef0123456789abcdef', 1.0, 1, 1.0)"
        )
        connection.exec_driver_sql(
            "INSERT INTO containers (id, sequence, name, user, project, priority, created_at,"
            " state, cancel_requested, cost_usd, spec, job_id, task, pinned_to, ended) VALUES"
            " ('c-old', 1, 'old', 'anonymous', 'default', 500, 1.5, 'succeeded', 0, '0', ?, '', '',"
            " '', 'succeeded')",
            (SPEC,),
        )
    engine.dispose()
    with DispatcherProcess(tmp_path, {**CONFIG, "auth": {"mode": "open"}}) as server:
        # As before: everybody on this machine is an admin.
        assert server.call("GET", "/v1/containers/c-old")["user"] == "anonymous"
        server.submit("true")
    with DispatcherProcess(tmp_path, CONFIG) as server:
        assert "Authorization" in refused(server, {}, "/v1/containers/c-old")
        _, member = made_token(server, projects=["default"])
        _, stranger = made_token(server, user="eve")
        assert server.call("GET", "/v1/containers/c-old", **member)["project"] == "default"
        with pytest.raises(ApiError) as error:
            server.call("GET", "/v1/containers/c-old", **stranger)
        assert error.value.status == 404


def test_open_mode_is_as_safe_as_before(tmp_path: Path) -> None:
    config = {**CONFIG, "auth": {"mode": "open"}}
    with DispatcherProcess(tmp_path, config) as server:
        port = server.url.rpartition(":")[2]
        for headers in (
            {"Host": f"evil.example:{port}"},
            {"Origin": "http://evil.example"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            with pytest.raises(ApiError) as error:
                server.call("GET", "/v1/containers", **headers)
            assert error.value.status == 403
        # Making a token closes nothing, and one that is no good is not passed over.
        _, token = made_token(server)
        assert server.call("GET", "/v1/whoami")["role"] == "admin"
        assert server.call("GET", "/v1/whoami", **token)["role"] == "user"
        assert "no such token" in refused(server, {"Authorization": "Bearer lsh_x"})


def test_the_server_refuses_what_would_let_in_too_many(tmp_path: Path) -> None:
    server = DispatcherProcess(
        tmp_path, {**CONFIG, "listen": "0.0.0.0:0", "auth": {"mode": "open"}}
    )
    server.launch()
    assert server.process is not None
    assert server.process.wait(timeout=60) == 2
    said = server.error_path.read_text(encoding="utf-8")
    assert "auth.mode" in said
    assert "tls" in said


def test_the_log_has_no_token(server: DispatcherProcess) -> None:
    _, headers = made_token(server)
    server.call("GET", "/v1/whoami", **headers)
    refused(server, {"Authorization": headers["Authorization"] + "x"})
    # "Bearer lsh_ID_SECRET"; the secret may have the separator in it.
    secret = headers["Authorization"].split("_", 2)[2]
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGTERM)
    server.process.wait(timeout=60)
    assert secret not in server.error_path.read_text(encoding="utf-8")
    assert json.dumps(sys.argv).find(secret) < 0


def test_a_repeated_request_makes_no_second_token(server: DispatcherProcess) -> None:
    key = {"Idempotency-Key": "k"}
    wanted = {"user": "ann", "projects": ["p"]}
    place = socket_of(server)
    status, made = local_call(place, "POST", "/v1/tokens", wanted, **key)
    assert status == 201
    server.kill()
    server.start()
    status, again = local_call(place, "POST", "/v1/tokens", wanted, **key)
    assert (status, made["id"] in again["detail"]) == (409, True)
    other = {"user": "bob", "projects": ["p"]}
    assert local_call(place, "POST", "/v1/tokens", other, **key)[0] == 422
    _, page = local_call(place, "GET", "/v1/tokens")
    assert [each["id"] for each in page["items"]] == [made["id"]]
