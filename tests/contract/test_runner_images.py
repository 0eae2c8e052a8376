"""The runner with real Podman: images run as they were made, and what is known of them is told."""

from __future__ import annotations

import hashlib
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from longshore.pool.runner import cgroups, machine
from longshore.pool.runner.images import SWALLOWED
from tests.busybox_image import ENGINE, IMAGE, import_image
from tests.conftest import RequireTool, not_tested
from tests.image_registry import ImageRegistry
from tests.runner_harness import Attached, Runner, eventually

A = f"a-{os.getpid()}-{secrets.token_hex(4)}"
MADE = f"localhost/longshore-made-{os.getpid()}:latest"

pytestmark = pytest.mark.real


class Maker:
    """Makes an image of busybox's root with changes as in a Dockerfile, one at a time."""

    def __init__(self, podman: str, root: Path) -> None:
        self.podman = podman
        self._root = root

    def __call__(self, *changes: str) -> str:
        words = [word for change in changes for word in ("--change", change)]
        run(self.podman, "import", "--quiet", *words, str(self._root), MADE)
        return MADE


@pytest.fixture(scope="module")
def podman(require_tool: RequireTool) -> str:
    path = require_tool("podman", "podman")
    require_tool("runc", "runc")
    require_tool("catatonit", "catatonit")
    if cgroups.problem():
        not_tested(f"{cgroups.problem()}")
    import_image(path, require_tool("busybox", "busybox-static"))
    return path


@pytest.fixture(scope="module")
def make(podman: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maker]:
    path = tmp_path_factory.mktemp("root") / "root.tar"
    container = run(podman, "create", IMAGE, "sh").strip()
    run(podman, "export", "--output", str(path), container)
    run(podman, "rm", container)
    yield Maker(podman, path)
    subprocess.run([podman, "rmi", "--force", MADE], check=False, capture_output=True)


def run(podman: str, *words: str) -> str:
    done = subprocess.run([podman, *words], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


@contextmanager
def attached(podman: str, engine: dict[str, Any], advice: str = "") -> Iterator[Attached]:
    with Runner(engine=engine) as runner:
        session, hello = runner.attach()
        assert (hello["engine"], hello["broken"]) == ("podman", "")
        assert advice in hello["advice"]
        assert bool(hello["advice"]) is bool(advice)
        yield session
        session.request("kill", attempt_id=A, signal="KILL")
        eventually(lambda: session.request("release", attempt_id=A).get("kept") is None)
        label = f"label=longshore-spool={runner.places.name}"
        eventually(lambda: not run(podman, "ps", "-a", "-q", "--filter", label))


@pytest.fixture
def session(podman: str) -> Iterator[Attached]:
    with attached(podman, ENGINE) as each:
        yield each


def image_of(session: Attached) -> dict[str, Any]:
    """Return what was told of the image of A last."""
    told = [each["image"] for each in session.pushed if each["type"] == "image"]
    return dict(told[-1])


@pytest.mark.parametrize(
    ("fields", "command", "out"),
    [
        ({}, [], b"entry own\n"),
        ({}, ["given"], b"entry given\n"),
        ({"entrypoint": []}, ["echo", "given"], b"given\n"),
        ({"entrypoint": ["echo", "a b", "c"]}, ["given"], b"a b c given\n"),
        ({"entrypoint": ["echo", "[x"]}, [], b"[x\n"),
        ({"entrypoint": ["[", "a", "=", "a", "]"]}, [], b""),
    ],
)
def test_an_image_runs_by_its_own_command_and_entrypoint(
    session: Attached, make: Maker, fields: dict[str, Any], command: list[str], out: bytes
) -> None:
    image = make('ENTRYPOINT ["echo","entry"]', 'CMD ["own"]')
    exit_ = session.run(A, *command, image=image, **fields)
    assert (exit_["kind"], exit_["code"], session.log(A)) == ("exited", 0, out)
    digest = run(make.podman, "image", "inspect", "--format", "{{.Digest}}", image).strip()
    assert image_of(session) == {"pulling": False, "digest": digest, "warning": ""}


@pytest.mark.parametrize(
    ("entrypoint", "fields", "told"),
    [
        ("echo shell", {"command": ["given"]}, (b"shell\n", SWALLOWED)),
        ("echo shell", {"command": []}, (b"shell\n", "")),
        ("echo shell", {"command": ["echo", "given"], "entrypoint": []}, (b"given\n", "")),
        ('["sh","-c","echo $@"]', {"command": ["x", "given"]}, (b"given\n", "")),
    ],
)
def test_a_command_that_an_entrypoint_swallows_is_told(
    session: Attached,
    make: Maker,
    entrypoint: str,
    fields: dict[str, Any],
    told: tuple[bytes, str],
) -> None:
    session.run(A, image=make(f"ENTRYPOINT {entrypoint}"), **fields)
    assert (session.log(A), image_of(session)["warning"]) == told


def test_the_signal_that_an_image_wants_takes_the_place_of_term(
    session: Attached, make: Maker
) -> None:
    script = "trap 'echo term' TERM; trap 'echo quit; exit 3' QUIT; echo up; while :; do :; done"
    session.start(A, "sh", "-c", script, image=make("STOPSIGNAL SIGQUIT"))
    session.until(lambda: session.log(A) == b"up\n")
    session.request("kill", attempt_id=A, signal="TERM")
    assert session.finish(A)["code"] == 3
    assert session.log(A) == b"up\nquit\n"


def test_an_image_that_is_not_there_is_pulled_and_that_is_told(
    podman: str, make: Maker, tmp_path: Path
) -> None:
    engine = {**ENGINE, "arguments": [*ENGINE["arguments"], "--tls-verify=false"]}
    made = make('CMD ["echo","pulled"]')
    with ImageRegistry(podman, made, tmp_path) as registry, attached(podman, engine) as session:
        began = session.start(A, image=registry.name)
        assert began["ok"]
        assert session.wait_for("image")["image"]["pulling"] is True
        eventually(registry.asked.is_set)
        registry.gate.set()
        exit_ = session.finish(A)
        assert (exit_["code"], session.log(A)) == (0, b"pulled\n")
        digest = f"sha256:{hashlib.sha256(registry.manifest).hexdigest()}"
        assert image_of(session) == {"pulling": False, "digest": digest, "warning": ""}
        run(podman, "rmi", "--force", registry.name)


@pytest.mark.parametrize("signal", ["TERM", "KILL"])
def test_what_is_told_to_end_while_its_image_is_pulled_ends(
    podman: str, make: Maker, tmp_path: Path, signal: str
) -> None:
    engine = {**ENGINE, "arguments": [*ENGINE["arguments"], "--tls-verify=false"]}
    with ImageRegistry(podman, make(), tmp_path) as registry, attached(podman, engine) as session:
        session.start(A, "true", image=registry.name)
        eventually(registry.asked.is_set)
        session.request("kill", attempt_id=A, signal=signal)
        exit_ = session.exit_of(A)
        assert (exit_["kind"], exit_["code"]) == ("engine_failure", None)


def test_a_registry_that_hangs_holds_nobody_for_ever(
    podman: str, make: Maker, tmp_path: Path
) -> None:
    arguments = [*ENGINE["arguments"], "--tls-verify=false"]
    engine = {**ENGINE, "arguments": arguments, "pull_timeout_s": 2}
    with ImageRegistry(podman, make(), tmp_path) as registry, attached(podman, engine) as session:
        session.start(A, "true", image=registry.name)
        eventually(registry.asked.is_set)
        assert processes_with(registry.name), "its client waits"
        exit_ = session.exit_of(A)
        assert (exit_["kind"], exit_["fault"]) == ("engine_failure", "registry")
        assert exit_["message"] == "its image was not pulled within 2 s (engine.pull_timeout_s)"
        assert exit_["finished_at"] - exit_["started_at"] < 30
        assert not processes_with(registry.name)


def test_a_registry_that_refuses_in_time_is_no_registry_that_hangs(podman: str) -> None:
    with attached(podman, {**ENGINE, "pull_timeout_s": 60}) as session:
        exit_ = session.run(A, "true", image="127.0.0.1:9/longshore/nothing:1")
        assert (exit_["kind"], exit_["fault"]) == ("engine_failure", "instance")
        assert "refused" in exit_["message"]


def processes_with(word: str) -> list[str]:
    """Return the command lines that hold a word, but for those of the shells that gave it."""
    lines = [Path(f"/proc/{pid}/cmdline") for pid in machine.processes()]
    found = [path.read_bytes().decode(errors="replace") for path in lines if path.exists()]
    return [line for line in found if word in line and "pull" in line.split("\0")]


def has_init(session: Attached, **fields: object) -> bool:
    """Return whether a program is process 1 of its container no longer, and then heeds TERM."""
    session.start(A, "sh", "-c", "cat /proc/1/comm; exec sleep 60", image=IMAGE, **fields)
    session.until(lambda: b"\n" in session.log(A))
    own = session.log(A) == b"sh\n"
    session.request("kill", attempt_id=A, signal="TERM")
    if own:
        session.request("kill", attempt_id=A, signal="KILL")
    assert session.exit_of(A)["code"] == (137 if own else 143)
    return not own


def test_a_program_is_not_process_1_and_heeds_term_unless_it_is_asked_for(podman: str) -> None:
    with attached(podman, ENGINE) as session:
        assert has_init(session)
    with attached(podman, ENGINE) as session:
        assert not has_init(session, init=False)
    with attached(podman, {**ENGINE, "init": False}) as session:
        assert not has_init(session)


def test_where_the_engine_has_no_init_it_goes_without_and_says_what_to_install(podman: str) -> None:
    arguments = [*ENGINE["arguments"], "--init-path", "/nowhere/catatonit"]
    with attached(podman, {**ENGINE, "arguments": arguments}, "package catatonit") as session:
        assert not has_init(session)


@pytest.mark.parametrize("init", [True, False])
@pytest.mark.parametrize(
    ("content", "why"),
    [("\x7fELF", "exec format error"), ("#!/none\n", "no such file or directory")],
)
def test_a_program_that_cannot_be_executed_is_told_as_that(
    session: Attached, make: Maker, tmp_path: Path, content: str, why: str, *, init: bool
) -> None:
    program = tmp_path / "program"
    program.write_text(content)
    program.chmod(0o755)
    image = with_file(make.podman, make(), program)
    exit_ = session.run(A, "/program", image=image, init=init)
    assert (exit_["kind"], exit_["fault"]) == ("engine_failure", "request")
    assert why in exit_["message"]
    assert '"/program"' in exit_["message"]


def with_file(podman: str, image: str, path: Path) -> str:
    """Return an image with a file in its root."""
    container = run(podman, "create", image, "sh").strip()
    run(podman, "cp", str(path), f"{container}:/{path.name}")
    run(podman, "commit", "--quiet", container, image)
    run(podman, "rm", container)
    return image


@pytest.mark.parametrize("script", ["echo up; sleep 60", "echo up; trap '' TERM; sleep 60"])
def test_a_container_that_an_admin_removes_has_run(
    podman: str, session: Attached, script: str
) -> None:
    session.start(A, "sh", "-c", script, image=IMAGE)
    session.until(lambda: session.log(A) == b"up\n")
    run(podman, "rm", "--force", "--time", "0", f"longshore-{A}")
    exit_ = session.exit_of(A)
    assert (exit_["kind"], exit_["code"]) == ("lost", None)
    assert exit_["message"] == "its container was removed by somebody else"


@pytest.mark.parametrize(
    ("command", "why"),
    [("/no-such-program", "no such file or directory"), ("/tmp", "permission denied")],
)
def test_a_program_that_the_init_cannot_execute_is_told_as_that(
    session: Attached, command: str, why: str
) -> None:
    exit_ = session.run(A, command, image=IMAGE)
    assert (exit_["kind"], exit_["fault"]) == ("engine_failure", "request")
    assert exit_["message"] == f'its program "{command}" cannot be executed: {why}'


def test_the_program_that_cannot_be_executed_may_be_the_images_own(
    session: Attached, make: Maker
) -> None:
    exit_ = session.run(A, "given", image=make('ENTRYPOINT ["/gone","x"]'))
    assert exit_["message"] == 'its program "/gone" cannot be executed: no such file or directory'
