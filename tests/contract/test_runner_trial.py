"""The runner's trial of its engine, and whose fault a failure of an engine is, with real Podman."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from longshore.pool.runner import cgroups
from tests.busybox_image import ENGINE, IMAGE, import_image
from tests.conftest import RequireTool, not_tested
from tests.runner_harness import Runner, eventually

pytestmark = pytest.mark.real

A = f"a-{os.getpid()}-{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def podman(require_tool: RequireTool) -> str:
    path = require_tool("podman", "podman")
    require_tool("runc", "runc")
    busybox = require_tool("busybox", "busybox-static")
    if cgroups.problem():
        not_tested(f"{cgroups.problem()}")
    import_image(path, busybox)
    return path


@pytest.fixture
def runner(podman: str) -> Iterator[Runner]:
    assert podman
    with Runner(engine=ENGINE) as made:
        yield made


def trial(runner: Runner) -> str:
    done = subprocess.run(
        runner.command("trial"),
        env=runner.environment,
        capture_output=True,
        check=True,
        timeout=120,
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (answer["protocol"], answer["cluster"]) == (1, runner.cluster)
    found: str = answer["problem"]
    return found


def told(podman: str, *words: str) -> str:
    """Return what Podman says; it may refuse while images of another test come and go."""
    found: list[str] = []

    def is_told() -> bool:
        done = subprocess.run([podman, *words], capture_output=True, text=True, check=False)
        found[:] = [done.stdout]
        return done.returncode == 0

    eventually(is_told)
    return found[0]


def leftovers(podman: str) -> str:
    listed = [
        told(podman, *words)
        for words in (["ps", "-a", "--format", "{{.Names}}"], ["images", "--format", "{{.Names}}"])
    ]
    return "".join(line for line in "".join(listed).splitlines() if "longshore-trial" in line)


def test_an_engine_that_works_passes_and_nothing_of_its_trial_is_left(
    podman: str, runner: Runner
) -> None:
    assert trial(runner) == ""
    assert leftovers(podman) == ""


def test_an_engine_that_answers_and_starts_nothing_fails(podman: str) -> None:
    broken = {**ENGINE, "global_arguments": ["--runtime", "/bin/false"]}
    with Runner(engine=broken) as runner:
        assert runner.listing()["broken"] == "", "asked whether it is there, it is"
        assert trial(runner).startswith("podman: ")
    assert leftovers(podman) == ""


def test_the_process_engine_is_tried_by_a_process() -> None:
    with Runner(engine={"name": "process"}) as runner:
        assert trial(runner) == ""
    with Runner(engine={"name": "process", "run_as": "no-such-user"}) as runner:
        assert "no-such-user" in trial(runner)


@pytest.mark.parametrize(
    ("image", "command"),
    [
        ("localhost/longshore-no-such-image:latest", "true"),
        ("longshore no such image", "true"),
        (IMAGE, "/no-such-program"),
        (IMAGE, "/tmp"),
    ],
)
def test_what_fails_on_any_instance_is_the_requests_fault(
    podman: str, runner: Runner, image: str, command: str
) -> None:
    session, _ = runner.attach()
    exit_ = session.run(A, command, image=image)
    assert (exit_["kind"], exit_["fault"]) == ("engine_failure", "request")
    session.request("release", attempt_id=A)
    # What an init could not execute has a container until then.
    listed = [podman, "ps", "-a", "-q", "--filter", f"name=longshore-{A}"]
    eventually(lambda: not subprocess.run(listed, capture_output=True, check=True).stdout)
    session.close()


@pytest.mark.usefixtures("podman")
def test_what_a_broken_machine_does_not_run_is_the_instances_fault() -> None:
    broken = {**ENGINE, "global_arguments": ["--runtime", "/bin/false"]}
    with Runner(engine=broken) as runner:
        session, _ = runner.attach()
        exit_ = session.run(A, "true", image=IMAGE)
        assert (exit_["kind"], exit_["fault"]) == ("engine_failure", "instance"), exit_
        session.request("release", attempt_id=A)
        session.close()
