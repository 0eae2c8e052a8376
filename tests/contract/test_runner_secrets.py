"""Secrets at the runner: given to their program alone, in memory alone, gone with the attempt."""

from __future__ import annotations

import os
import secrets
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import cgroups, machine, secret_files
from longshore.pool.runner.secret_files import MOUNTED_AT
from longshore.pool.runner.spool import Spool
from longshore.pool.runner.wire import Refusal, SecretsOrder
from tests.busybox_image import ENGINE, IMAGE, import_image
from tests.conftest import RequireTool, not_tested
from tests.image_registry import ImageRegistry
from tests.runner_harness import Attached, Runner, eventually

A = f"a-{os.getpid()}-{secrets.token_hex(4)}"
VALUE, LOGIN = "hunter2-of-the-runner", "puller:pa55-of-the-registry"
GIVEN: dict[str, Any] = {
    "secrets": {"env": {"DB": VALUE}, "files": {"cert.pem": f"{VALUE}\n\ntwo\n"}, "registries": {}}
}
LOOK = (
    'echo "$DB"; cat "$LONGSHORE_SECRETS_DIR/cert.pem";'
    ' stat -c "%a %u %g" "$LONGSHORE_SECRETS_DIR/cert.pem"; id -u; echo "$LONGSHORE_SECRETS_DIR"'
    "; ! env | grep ^_ls_"
)

pytestmark = pytest.mark.real


def made_with(**secrets_of: dict[str, str]) -> dict[str, Any]:
    return {"secrets": {"env": {}, "files": {}, "registries": {}, **secrets_of}}


def below(directory: Path) -> list[Path]:
    return list(directory.rglob("*")) if directory.exists() else []


def kept_by(runner: Runner) -> list[Path]:
    """Return what there is of secrets in both of the runner's places for them."""
    spool = Path(runner.places.spool)
    return [*below(spool / "secrets"), *below(spool.with_name(f"{spool.name}-secrets"))]


# ---- without a container -------------------------------------------------------------------------


@pytest.fixture(params=["", "nobody"])
def bare(request: pytest.FixtureRequest) -> Iterator[tuple[Runner, Attached]]:
    run_as = str(request.param)
    if run_as and os.geteuid() != 0:
        not_tested("run_as needs root")
    with Runner(engine={"name": "process", "run_as": run_as}) as runner:
        session, hello = runner.attach()
        assert hello["broken"] == ""
        yield runner, session


def test_a_process_has_them_and_nothing_is_left(bare: tuple[Runner, Attached]) -> None:
    runner, session = bare
    assert session.run(A, "sh", "-c", LOOK, **GIVEN)["code"] == 0
    value, first, _, last, modes, uid, directory = session.log(A).decode().splitlines()
    assert (value, first, last) == (VALUE, VALUE, "two")
    assert modes.split()[:2] == ["400", uid]
    assert Path(directory).parent.parent == Path("/dev/shm")
    assert kept_by(runner) == []


def test_nobody_else_can_look_and_no_argument_has_a_value(bare: tuple[Runner, Attached]) -> None:
    runner, session = bare
    session.start(A, "sh", "-c", "echo ready; exec sleep 60", **GIVEN)
    session.until(lambda: session.log(A) == b"ready\n")
    parent = Path(f"{runner.places.spool}-secrets")
    assert stat.S_IMODE(parent.stat().st_mode) == 0o711
    assert stat.S_IMODE((parent / A).stat().st_mode) == 0o700
    assert stat.S_IMODE((parent / A / "cert.pem").stat().st_mode) == 0o400
    for pid in machine.processes():
        arguments = Path(f"/proc/{pid}/cmdline")
        assert not arguments.exists() or VALUE.encode() not in arguments.read_bytes()
    spooled = [path for path in below(Path(runner.places.spool)) if path.is_file()]
    assert not [path for path in spooled if VALUE.encode() in path.read_bytes()]
    session.request("kill", attempt_id=A, signal="KILL")
    session.exit_of(A)
    assert kept_by(runner) == []


def test_what_loses_its_supervisor_loses_them_too(bare: tuple[Runner, Attached]) -> None:
    runner, session = bare
    session.start(A, "sh", "-c", "echo ready; exec sleep 60", **GIVEN)
    session.until(lambda: session.log(A) == b"ready\n")
    supervisor = int(Path(runner.places.spool, "attempts", A, "job").read_text().split()[2])
    os.kill(supervisor, 9)
    assert session.exit_of(A)["kind"] == "lost"
    assert kept_by(runner) == []


def test_what_a_runner_left_that_died_over_a_start_is_swept(bare: tuple[Runner, Attached]) -> None:
    runner, session = bare
    session.close()
    parent = Path(f"{runner.places.spool}-secrets")
    for left in (parent / "gone-1", Path(runner.places.spool, "secrets", "gone-2", "files")):
        left.mkdir(parents=True)
        (left / "cert.pem").write_text(VALUE)
    session, _ = runner.attach()
    eventually(lambda: not kept_by(runner))
    session.close()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (made_with(registries={"ghcr.io": LOGIN}), "a login at a registry is for"),
        (made_with(files={"../cert": VALUE}), "not called as one can be"),
        (made_with(files={"..": VALUE}), "not called as one can be"),
        ({"secrets": {"env": {}, "more": {"A": VALUE}}}, "must be an object of env"),
        ({"secrets": {"env": {"A": [VALUE]}}}, "env must hold text only"),
        ({"secrets": {"env": {"A": f"{VALUE}\0"}}}, "env holds a zero byte"),
    ],
)
def test_an_order_that_cannot_be_is_refused_without_a_value(
    given: dict[str, Any], told: str
) -> None:
    with Runner(engine={"name": "process"}) as runner:
        session, _ = runner.attach()
        refused = session.start(A, "true", **given)
        assert (refused["ok"], refused["code"]) == (False, "invalid")
        assert told in refused["message"]
        assert VALUE not in str(refused)
        assert kept_by(runner) == []


def test_without_shared_memory_files_are_refused(tmp_path: Path) -> None:
    with Runner(engine={"name": "process"}) as runner:
        elsewhere = Spool(runner.places._replace(spool=str(tmp_path / "spool")))
        order = SecretsOrder(files=((b"cert.pem", VALUE.encode()),))
        with pytest.raises(Refusal, match="no shared memory") as caught:
            secret_files.places(elsewhere, A, order, bare=True)
        assert caught.value.code == "secrets"
        only_variables = SecretsOrder(env=((b"A", b"b"),))
        assert secret_files.places(elsewhere, A, only_variables, bare=True).top == ""


# ---- in a container ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def podman(require_tool: RequireTool) -> str:
    path = require_tool("podman", "podman")
    require_tool("runc", "runc")
    if cgroups.problem():
        not_tested(f"{cgroups.problem()}")
    import_image(path, require_tool("busybox", "busybox-static"))
    return path


@pytest.mark.parametrize("user", ["", "1234:1235"])
def test_a_container_has_them_as_its_own_user(podman: str, user: str) -> None:
    assert podman
    arguments = [*ENGINE["arguments"], *(["--user", user] if user else [])]
    with Runner(engine={**ENGINE, "arguments": arguments}) as runner:
        session, _ = runner.attach()
        assert session.run(A, "sh", "-c", LOOK, image=IMAGE, **GIVEN)["code"] == 0
        lines = session.log(A).decode().splitlines()
        owner = (user or "0:0").replace(":", " ")
        assert lines == [
            VALUE,
            VALUE,
            "",
            "two",
            f"400 {owner}",
            owner.split()[0],
            MOUNTED_AT,
        ]
        assert kept_by(runner) == []
        session.request("release", attempt_id=A)
        eventually(lambda: not Path(runner.places.spool, "leaving", A).exists())


def test_a_container_cannot_change_its_files(podman: str) -> None:
    assert podman
    with Runner(engine=ENGINE) as runner:
        session, _ = runner.attach()
        script = 'echo x >"$LONGSHORE_SECRETS_DIR/cert.pem" || echo x >"$LONGSHORE_SECRETS_DIR/n"'
        assert session.run(A, "sh", "-c", script, image=IMAGE, **GIVEN)["code"] != 0
        session.request("release", attempt_id=A)
        eventually(lambda: not Path(runner.places.spool, "leaving", A).exists())


def test_a_login_is_for_the_pull_alone(podman: str, tmp_path: Path) -> None:
    engine = {**ENGINE, "arguments": [*ENGINE["arguments"], "--tls-verify=false"]}
    registry = ImageRegistry(podman, IMAGE, tmp_path, login=LOGIN)
    host = registry.name.partition("/")[0]
    with registry, Runner(engine=engine) as runner:
        session, _ = runner.attach()
        for number, given in enumerate(({}, made_with(registries={host: "puller:wrong"}))):
            exit_ = session.run(f"{A}-{number}", "true", image=registry.name, **given)
            assert exit_["kind"] == "engine_failure"
            assert "wrong" not in exit_["message"]
        given = made_with(registries={host: LOGIN})
        script = "env; echo ready; exec sleep 60"
        session.start(f"{A}-2", "sh", "-c", script, image=registry.name, **given)
        eventually(registry.asked.is_set)
        login = Path(runner.places.spool, "secrets", f"{A}-2", "auth", "config.json")
        assert stat.S_IMODE(login.stat().st_mode) == 0o400
        for pid in machine.processes():
            arguments = Path(f"/proc/{pid}/cmdline")
            assert not arguments.exists() or b"pa55" not in arguments.read_bytes()
        registry.gate.set()
        session.until(lambda: b"ready" in session.log(f"{A}-2"))
        assert not login.parent.exists(), "it is gone while the program runs"
        session.request("kill", attempt_id=f"{A}-2", signal="KILL")
        session.exit_of(f"{A}-2")
        assert b"pa55" not in session.log(f"{A}-2")
        assert b"LONGSHORE_SECRETS_DIR" not in session.log(f"{A}-2")
        assert kept_by(runner) == []
        for number in range(3):
            session.request("release", attempt_id=f"{A}-{number}")
        eventually(lambda: not any(Path(runner.places.spool, "leaving").iterdir()))
        subprocess.run([podman, "rmi", "--force", registry.name], check=True, capture_output=True)
