"""Both clients against the real server: each endpoint, TLS, a Unix socket, waiting, following."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trustme

from longshore.client import (
    AsyncClient,
    Client,
    ConflictError,
    EventGap,
    InvalidRequestError,
    InvalidSettingsError,
    NotFoundError,
    RepeatPolicy,
    RunCancelledError,
    RunFailedError,
    SeveralContainersError,
    UnreachableError,
)
from longshore.dispatcher.api.schemas.containers import ContainerRequest, RunRequest
from longshore.dispatcher.api.schemas.jobs import JobRequest
from longshore.dispatcher.cli.commands.main import main
from longshore.dispatcher.client.calls import ENDPOINTS, ContainerFields, JobFields, RunFields
from longshore.dispatcher.client.settings import DEFAULT_URL, client_settings, default_url
from longshore.dispatcher.config import unix_socket
from tests.api_document import any_document
from tests.both_clients import CALLERS, QUICK, Caller
from tests.cli_server import CliServer, await_true, cli_server, meanwhile

INSTANCE = "i-1"
TASK = {"command": ["x"]}
SEVERAL = [{**TASK, "name": "a"}, {**TASK, "name": "b"}]


@pytest.fixture
def server() -> Iterator[CliServer]:
    with cli_server() as running:
        running.do(lambda rig: rig.add_instance(INSTANCE))
        yield running


@pytest.fixture(params=list(CALLERS))
def way(request: pytest.FixtureRequest) -> Callable[..., Caller]:
    return CALLERS[request.param]


@pytest.fixture
def call(server: CliServer, way: Callable[..., Caller]) -> Caller:
    return way(server.url)


def begun(server: CliServer, container_id: str, output: bytes = b"") -> None:
    """Let a container run on the instance, and write something."""
    server.do(lambda rig: rig.start(container_id, INSTANCE))
    if output:
        server.do(lambda rig: rig.push_log(container_id, output))


# ---- every endpoint ------------------------------------------------------------------------------


def test_each_route_of_the_server_has_its_row_and_each_row_its_method() -> None:
    paths = any_document()._told["paths"]
    routes = {(method.upper(), path) for path, each in paths.items() for method in each}
    assert routes == {(each.method, each.path) for each in ENDPOINTS.values()}
    assert len(routes) == len(ENDPOINTS) > 30
    for client in (Client, AsyncClient):
        assert [name for name in ENDPOINTS if not callable(getattr(client, name, None))] == []


@pytest.mark.parametrize(
    ("fields", "request_", "apart"),
    [
        (RunFields, RunRequest, {"command"}),
        (ContainerFields, ContainerRequest, {"command"}),
        (JobFields, JobRequest, {"tasks"}),
    ],
)
def test_what_may_be_said_is_what_the_server_takes(
    fields: Any, request_: Any, apart: set[str]
) -> None:
    taken = {each.name for each in msgspec.structs.fields(request_)}
    assert fields.__optional_keys__ == taken - apart


def test_a_token_is_made_once_however_often_it_is_asked_for(call: Caller) -> None:
    wanted: dict[str, Any] = {"projects": ["p"], "idempotency_key": "k"}
    made = call("create_token", "linus", **wanted)
    with pytest.raises(ConflictError, match=f"made token {made.id} before.* revoke that one"):
        call("create_token", "linus", **wanted)
    assert [each.id for each in call("tokens", user="linus")].count(made.id) == 1


EMPTY_BILL = {
    "month": "2026-10",
    "piece": 0,
    "pieces": 1,
    "rows": [],
    "billed_from_hour": None,
    "billed_until_hour": None,
    "file": "october.csv",
    "sha256": "0" * 64,
}
Cases = dict[str, tuple[tuple[Any, ...], dict[str, Any], str]]


def cases(ids: dict[str, str]) -> Cases:
    """Return a call of each endpoint's method, with the type that it gives or raises."""
    one, job = (ids["container"],), (ids["job"],)
    return {
        "submit": ((["x"],), {"cpus": 1, "env": {"A": "b"}}, "ContainerHandle"),
        "containers": ((), {"state": ["queued", "running"], "job": ids["job"]}, "list"),
        "container": (one, {}, "ContainerAnswer"),
        "set_container_priority": ((*one, 7), {}, "ContainerAnswer"),
        "explain": (one, {}, "ExplanationAnswer"),
        "logs": (one, {}, "list"),
        "cancel_container": (one, {}, "ContainerAnswer"),
        "submit_job": (([TASK],), {"name": "n"}, "JobHandle"),
        "jobs": ((), {"state": "running"}, "list"),
        "plan_job": (([TASK],), {"priority": 5}, "PlanAnswer"),
        "job": (job, {}, "JobAnswer"),
        "change_job": (job, {"held": True}, "JobAnswer"),
        "update_job": ((ids["system"], [TASK]), {"type": "system"}, "JobAnswer"),
        "dispatch_job": ((ids["parameterized"], {"a": "b"}), {}, "JobHandle"),
        "cancel_job": (job, {}, "JobAnswer"),
        "instances": ((), {}, "InstanceList"),
        "instance": ((INSTANCE,), {}, "InstanceAnswer"),
        "set_idle_behavior": ((INSTANCE, "hold"), {"reason": "r"}, "InstanceAnswer"),
        "strays": ((), {}, "StrayList"),
        "decide_strays": ((INSTANCE, "kill"), {}, "NotFoundError"),
        "leaks": ((), {}, "LeakList"),
        "events": ((), {"last_event_id": "1-1", "most": 1}, "list"),
        "create_token": (("ada",), {"projects": ["p"], "name": "laptop"}, "NewTokenAnswer"),
        "tokens": ((), {"user": "grace"}, "list"),
        "token": ((ids["token"],), {}, "TokenAnswer"),
        "revoke_token": ((ids["token"],), {}, "TokenAnswer"),
        "set_secret": (("p", "db", "xyz"), {}, "SecretAnswer"),
        "secrets": (("p",), {}, "list"),
        "remove_secret": (("p", "db"), {}, "SecretAnswer"),
        "rotate_secret_keys": ((), {}, "RotationAnswer"),
        "whoami": ((), {}, "CallerAnswer"),
        "cost": ((), {"by": ["project"], "step": "day"}, "list"),
        "audit": ((), {"user": "grace"}, "list"),
        "cost_forecast": ((), {"tz": "Europe/Berlin"}, "CostForecastAnswer"),
        "ended_runs": ((), {"since": "2026-10", "user": "grace"}, "EndedRunsAnswer"),
        "prices": ((), {}, "PriceListAnswer"),
        "budgets": ((), {}, "BudgetsAnswer"),
        "export_cost": (("2026-10",), {"form": "focus-1.4", "most": 1}, "list"),
        "reconcile_cost": ((EMPTY_BILL,), {}, "ReconcileAnswer"),
        "efficiency": ((), {"user": "grace", "since": "2026-01-01T00:00:00Z"}, "EfficiencyAnswer"),
        "overview": ((), {}, "OverviewAnswer"),
        "holds": ((), {}, "HoldsAnswer"),
        "decisions": ((), {"kind": "bought"}, "list"),
        "timeline": (
            (),
            {"since": "2026-11-28T00:00:00Z", "until": "2026-11-28T01:00:00Z"},
            "list",
        ),
        "live": ((), {}, "LiveAnswer"),
        "ready": ((), {}, "ReadyAnswer"),
        "health": ((), {}, "HealthAnswer"),
        "metrics": ((), {}, "str"),
        "kill_instance": ((INSTANCE,), {"reason": "r"}, "InstanceAnswer"),
    }


def outcome_of(call: Caller, method: str, *arguments: Any, **fields: Any) -> object:
    """Return what a call gives; there is nothing stray here to decide on."""
    try:
        return call(method, *arguments, **fields)
    except NotFoundError as error:
        return error


def test_each_endpoint_is_asked_and_its_answer_read(server: CliServer, call: Caller) -> None:
    parameterized = {"required": ["a"]}
    ids = {
        "container": call("submit", ["x"]).id,
        "job": call("submit_job", [TASK]).id,
        "system": call("submit_job", [TASK], type="system").id,
        "parameterized": call("submit_job", [TASK], parameterized=parameterized).id,
        "token": call("create_token", "grace", "admin").id,
    }
    given = cases(ids)
    assert set(given) == set(ENDPOINTS)
    for method, (arguments, fields, kind) in given.items():
        got = outcome_of(call, method, *arguments, **fields)
        assert type(got).__name__.removeprefix("Async") == kind, method
    asked = {path for path in server.paths if not path.startswith(("/v1", "/health", "/metrics"))}
    assert asked == set()


def test_what_is_wrong_is_told_at_once_by_a_class_of_its_own(call: Caller) -> None:
    with pytest.raises(InvalidRequestError) as wrong:
        call("submit", ["x"], cpus=-1, memory="much")
    assert [each.path for each in wrong.value.errors] == ["cpus", "memory"]
    assert wrong.value.status == 400
    with pytest.raises(NotFoundError, match="c-9"):
        call("container", "c-9")
    with pytest.raises(NotFoundError):
        call("container", "../../x?y")
    job_id = call("submit_job", [TASK]).id
    with pytest.raises(ConflictError):
        call("update_job", job_id, [TASK])


def test_listings_go_on_from_page_to_page(
    server: CliServer, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.client.calls.PAGE_ITEMS", 2)
    made = [each.id for each in call("submit_many", [TASK] * 5)]
    server.paths.clear()
    assert sorted(each.id for each in call("containers")) == sorted(made)
    assert server.paths.count("/v1/containers") == 3
    server.do(lambda rig: rig.add_instance("i-2"))
    server.do(lambda rig: rig.add_instance("i-3"))
    assert [each.id for each in call("instances").items] == ["i-1", "i-2", "i-3"]


def test_a_list_is_submitted_whole_or_not_at_all(call: Caller) -> None:
    with pytest.raises(InvalidRequestError) as wrong:
        call("submit_many", [TASK, {"command": ["x"], "cpus": -1}])
    assert [each.path for each in wrong.value.errors] == ["[1].cpus"]
    assert call("containers") == []


def test_one_key_makes_one_container(call: Caller) -> None:
    ids = {call("submit", ["x"], idempotency_key="k").id for _ in range(3)}
    assert len(ids) == 1
    assert len({call("submit", ["x"]).id for _ in range(2)}) == 2


# ---- waiting -------------------------------------------------------------------------------------


def test_a_result_comes_when_a_container_has_ended(server: CliServer) -> None:
    with Client(server.url) as client:
        good, bad = client.submit(["x"]), client.submit(["x"])
        with pytest.raises(TimeoutError, match=f"{good.id} has not ended within 0.2 s"):
            good.result(timeout_s=0.2)
        begun(server, good.id, b"out\n")
        begun(server, bad.id)

        def run() -> None:
            await_true(lambda: server.paths.count(f"/v1/containers/{good.id}") > 3)
            server.do(lambda rig: rig.finish(good.id, 0))
            server.do(lambda rig: rig.finish(bad.id, 7))

        with meanwhile(run):
            assert good.result().exit_code == 0
        assert bad.wait().state == "failed"
        with pytest.raises(RunFailedError) as failed:
            bad.result()
        assert failed.value.exit_code == 7
        assert b"".join(good.logs(follow=True)) == b"out\n"


def test_what_is_cancelled_has_no_result(server: CliServer) -> None:
    server.do(lambda rig: rig.lose_instance(INSTANCE))
    with Client(server.url) as client:
        container, job = client.submit(["x"]), client.submit_job(SEVERAL)
        container.cancel()
        job.cancel()
        with pytest.raises(RunCancelledError):
            container.result(60)
        with pytest.raises(RunCancelledError):
            job.result(60)
        assert sorted(each.answer.state for each in job.containers()) == ["cancelled"] * 2
        with pytest.raises(SeveralContainersError):
            job.logs()


async def test_the_async_handles_do_the_same(server: CliServer) -> None:
    async with AsyncClient(server.url) as client:
        one, job = await client.submit(["x"]), await client.submit_job([TASK])
        with pytest.raises(TimeoutError):
            await one.result(timeout_s=0.2)
        [of_job] = [each async for each in job.containers()]
        for container_id, code in ((one.id, 0), (of_job.id, 3)):
            await asyncio.to_thread(begun, server, container_id, b"out\n")
            finish = server.do
            await asyncio.to_thread(finish, lambda rig, c=container_id, e=code: rig.finish(c, e))
        assert (await one.result()).exit_code == 0
        with pytest.raises(RunFailedError):
            await job.result(60)
        assert [chunk async for chunk in one.logs(follow=True)] == [b"out\n"]
        assert [chunk async for chunk in job.logs()] == [b"out\n"]
        await client.submit_many([TASK, TASK])
        many = await client.submit_job(SEVERAL)
        with pytest.raises(SeveralContainersError):
            await anext(aiter(many.logs()))
        waiting = await client.submit(["x"])
        await waiting.cancel()
        await many.cancel()


# ---- a server that goes and comes back -----------------------------------------------------------


def test_a_log_and_the_events_are_taken_up_after_a_restart(
    way: Callable[..., Caller], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshore.dispatcher.client.waiting.LONGEST_PAUSE_S", 0.05)
    first = CliServer()
    first.start()
    first.do(lambda rig: rig.add_instance(INSTANCE))
    call = way(first.url)
    container_id = call("submit", ["x"]).id
    begun(first, container_id, b"one\n")
    logs = f"/v1/containers/{container_id}/logs"
    second = CliServer(rig=first.rig, port=first.port)

    def run() -> None:
        await_true(lambda: logs in first.paths)
        first.do(lambda rig: rig.push_log(container_id, b"two\n"))
        first.stop()
        second.start()
        await_true(lambda: logs in second.paths)
        second.do(lambda rig: rig.push_log(container_id, b"three\n"))
        second.do(lambda rig: rig.finish(container_id, 0))

    try:
        with meanwhile(run):
            assert b"".join(call("logs", container_id, follow=True)) == b"one\ntwo\nthree\n"
    finally:
        second.stop()


def test_a_log_goes_on_over_another_attempt(server: CliServer, call: Caller) -> None:
    container_id = call("submit", ["x"], retries={"max": 1, "delay_s": 0}).id
    begun(server, container_id, b"first\n")

    def run() -> None:
        await_true(lambda: f"/v1/containers/{container_id}/logs" in server.paths)
        server.do(lambda rig: rig.finish(container_id, 1))
        begun(server, container_id, b"second\n")
        server.do(lambda rig: rig.finish(container_id, 0))

    with meanwhile(run):
        assert b"".join(call("logs", container_id, follow=True)).endswith(b"second\n")


def test_events_come_as_they_happen(server: CliServer, call: Caller) -> None:
    enough = threading.Event()

    def run() -> None:
        # Nobody knows from when on it is subscribed: so something happens again and again.
        while not enough.wait(0.02):
            server.do(lambda rig: rig.publish("container", "c-5", {"state": "queued"}))

    with meanwhile(run):
        told = call("events", most=3)
        enough.set()
    assert [(each.kind, each.id, each.data) for each in told] == [
        ("container", "c-5", {"state": "queued"})
    ] * 3
    assert [each.number - told[0].number for each in told] == [0, 1, 2]


def test_events_that_the_server_no_longer_has_are_told(call: Caller) -> None:
    [told] = call("events", last_event_id="1-1", most=1)
    assert isinstance(told, EventGap)


# ---- how it is reached ---------------------------------------------------------------------------


def tls_server(authority: trustme.CA, name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    return str(tmp_path / "ca.pem")


def test_tls_is_spoken_with_whom_the_ca_vouches_for(
    way: Callable[..., Caller],
    authority: trustme.CA,
    ca_file: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with cli_server(tls=tls_server(authority)) as server:
        assert server.url.startswith("https://")
        assert way(server.url, ca_file=ca_file)("live").live
        with pytest.raises(UnreachableError, match="TLS failed") as distrusted:
            way(server.url)("live")
        assert "Check the certificate" in str(distrusted.value)
        monkeypatch.setenv("LONGSHORE_CA_FILE", ca_file)
        assert way(server.url)("live").live


def test_a_certificate_of_another_name_is_refused(
    way: Callable[..., Caller], authority: trustme.CA, ca_file: str
) -> None:
    with (
        cli_server(tls=tls_server(authority, "elsewhere.example")) as server,
        pytest.raises(UnreachableError, match="TLS failed"),
    ):
        way(server.url, ca_file=ca_file)("live")


def other(url: str) -> str:
    """Return a URL with the scheme that it does not have."""
    scheme, _, rest = url.partition("://")
    return f"{'http' if scheme == 'https' else 'https'}://{rest}"


@pytest.mark.parametrize("tls", [True, False])
@pytest.mark.parametrize(
    ("method", "given"), [("live", ()), ("submit", (["x"],)), ("cancel_container", ("c-1",))]
)
def test_a_url_with_the_wrong_scheme_is_told_at_once_with_the_right_one(
    way: Callable[..., Caller],
    authority: trustme.CA,
    method: str,
    given: tuple[Any, ...],
    *,
    tls: bool,
) -> None:
    # It is never repeated: with this policy that would take longer than any test may.
    policy = RepeatPolicy(first_pause_s=3600.0, longest_pause_s=3600.0)
    with cli_server(tls=tls_server(authority) if tls else None) as server:
        wrong = other(server.url)
        with pytest.raises(UnreachableError) as told:
            way(wrong, token="s3cret", policy=policy)(method, *given)
        assert server.paths == []
    speaks = "speaks TLS, but" if tls else "does not speak TLS, but"
    assert told.value.sentence.startswith(f"the server at {wrong} {speaks} its URL begins with")
    assert told.value.remedy.startswith(f"Set url= or LONGSHORE_URL to {server.url}")
    assert ("LONGSHORE_CA_FILE" in told.value.remedy) == tls
    assert not told.value.in_doubt


@pytest.mark.parametrize("tls", [True, False])
def test_the_command_line_names_the_right_scheme(
    authority: trustme.CA, capsys: pytest.CaptureFixture[str], *, tls: bool
) -> None:
    with cli_server(tls=tls_server(authority) if tls else None) as server:
        assert main(["ps", "--url", other(server.url)]) == 3
    told = " ".join(capsys.readouterr().err.split())
    assert f"the server at {other(server.url)} {'speaks' if tls else 'does not speak'} TLS" in told
    assert f"Set --url or LONGSHORE_URL to {server.url}" in told


@pytest.fixture
def socket_dir() -> Iterator[Path]:
    # Shorter than pytest's, since the path of a socket has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="ls-") as directory:
        yield Path(directory)


def test_a_unix_socket_is_spoken_to(way: Callable[..., Caller], socket_dir: Path) -> None:
    with cli_server(socket_dir=socket_dir) as server:
        call = way(server.url)
        container_id = call("submit", ["x"]).id
        assert [each.id for each in call("containers")] == [container_id]
        assert call("whoami").role == "admin"
    with pytest.raises(UnreachableError, match=f"{server.url}: connection refused"):
        call("live")


def test_a_socket_that_is_not_there_is_told(way: Callable[..., Caller], socket_dir: Path) -> None:
    with pytest.raises(UnreachableError, match="no such file or directory"):
        way(f"unix://{socket_dir}/none.sock")("live")


def test_this_machines_server_is_found_by_its_socket(
    socket_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LONGSHORE_URL", raising=False)
    monkeypatch.setattr("longshore.dispatcher.client.settings.default_data_dir", lambda: socket_dir)
    assert client_settings().url == DEFAULT_URL
    with cli_server(socket_dir=socket_dir) as server:
        with Client() as client:
            assert client.url == server.url == default_url(socket_dir)
            assert client.live().live
        monkeypatch.setenv("LONGSHORE_URL", "http://127.0.0.1:1")
        assert client_settings().url == "http://127.0.0.1:1"
        assert client_settings(server.url).url == server.url
    # What a crash leaves behind: a socket on which nobody listens.
    unix_socket.bind(socket_dir).close()
    assert (socket_dir / unix_socket.NAME).exists()
    assert default_url(socket_dir) == DEFAULT_URL
    assert default_url(socket_dir / ("x" * 200)) == DEFAULT_URL


def test_the_command_line_uses_the_socket_and_speaks_tls(
    socket_dir: Path,
    authority: trustme.CA,
    ca_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("LONGSHORE_URL", raising=False)
    monkeypatch.setattr("longshore.dispatcher.client.settings.default_data_dir", lambda: socket_dir)
    with cli_server(socket_dir=socket_dir) as server:
        assert main(["submit", "--", "x"]) == 0
        assert main(["submit", "--url", server.url, "--", "x"]) == 0
        assert len(server.containers()) == 2
    assert main(["ps", "--url", server.url]) == 3
    assert f"cannot reach the server at {server.url}: connection ref" in capsys.readouterr().err
    with cli_server(tls=tls_server(authority)) as server:
        assert main(["ps", "--url", server.url]) == 3
        told = capsys.readouterr().err
        assert "TLS failed" in told
        assert "Check the certificate and the URL's scheme" in told
        monkeypatch.setenv("LONGSHORE_CA_FILE", ca_file)
        assert main(["ps", "--url", server.url]) == 0
    monkeypatch.setenv("LONGSHORE_CA_FILE", f"{ca_file}.gone")
    capsys.readouterr()
    assert main(["ps", "--url", server.url]) == 2
    assert "ca_file: cannot read" in capsys.readouterr().err


def test_settings_come_from_the_environment_and_arguments_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LONGSHORE_URL", "https://host/longshore/")
    monkeypatch.setenv("LONGSHORE_TOKEN", "t1")
    settings = client_settings()
    assert (settings.url, settings.token) == ("https://host/longshore", "t1")
    assert client_settings(token="").token == ""
    assert client_settings(token="of-another").token.endswith("another")


def test_all_that_is_wrong_with_the_settings_is_told_at_once(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.touch()
    with pytest.raises(InvalidSettingsError) as wrong:
        Client("nonsense", "a b", ca_file=str(empty))
    assert [each.path for each in wrong.value.errors] == ["url", "token", "ca_file"]
    with pytest.raises(InvalidSettingsError, match="No such file"):
        Client("http://host", ca_file=str(tmp_path / "none.pem"))


@pytest.mark.parametrize(
    "url", ["", "host", "ftp://host", "http://", "http://h:0", "http://h:99999", "unix://host/x"]
)
def test_what_is_no_url_is_none(url: str) -> None:
    with pytest.raises(InvalidSettingsError, match="is not the URL of a server"):
        Client(url)


def test_the_policy_is_what_was_given() -> None:
    with Client("http://127.0.0.1:1", policy=QUICK) as client:
        began = time.monotonic()
        with pytest.raises(UnreachableError, match="connection refused"):
            client.live()
        assert time.monotonic() - began < 10
