"""Must show: real containers by Podman, the whole way from POST to the exit and its reason."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.busybox_image import ENGINE, import_image
from tests.conftest import find_tool
from tests.dispatcher_process import DispatcherProcess, wait_for

MIB = 2**20

CONFIG = {
    "driver": {"name": "loopback"},
    "instance_types": {
        "here": {"provider_type": "h", "cpus": 4, "memory": "4GiB", "price_per_hour": 0.2}
    },
    "engine": ENGINE,
    "pool": {"idle_timeout_s": 2, "signal_interval_s": 1, "term_timeout_s": 3},
}


@pytest.fixture(scope="module")
def image() -> str:
    return import_image(find_tool("podman", "podman"), find_tool("busybox", "busybox-static"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, image: str) -> Iterator[DispatcherProcess]:
    find_tool("runc", "runc")
    assert image
    with DispatcherProcess(tmp_path_factory.mktemp("podman"), CONFIG) as process:
        yield process
        wait_for(lambda: not process.instances(), "the instance is gone")


@pytest.mark.real
def test_a_container_runs_in_its_image(server: DispatcherProcess, image: str) -> None:
    ids = [
        server.submit(
            "sh",
            "-c",
            "cat /proc/1/comm; ls /; echo $GREETING; exit 7",
            image=image,
            cpus=1,
            memory="64MiB",
            env={"GREETING": "a\nb $HOME"},
        ),
        server.submit("true", image=image, cpus=0.5, memory="64MiB"),
    ]
    ended = [server.wait_final(container_id) for container_id in ids]
    assert [c["exit_code"] for c in ended] == [7, 0]
    assert [c["state"] for c in ended] == ["failed", "succeeded"]
    lines = server.log(ids[0]).decode().split("\n")
    assert lines[0] in ("podman-init", "catatonit"), "its first process is an init"
    assert "bin" in lines
    assert "home" not in lines, "it sees its image's root and not the machine's"
    assert lines[-2] == "a b $HOME"


@pytest.mark.real
def test_too_much_memory_is_told_as_out_of_memory(server: DispatcherProcess, image: str) -> None:
    # tail keeps the last line in memory, and a stream of zeros has only one.
    script = "head -c 200000000 /dev/zero | tail >/dev/null"
    container_id = server.submit("sh", "-c", script, image=image, cpus=1, memory="64MiB")
    ended = server.wait_final(container_id)
    assert ended["state"] == "failed"
    assert ended["reason"]["code"] == "out_of_memory"
    assert str(64 * MIB) in ended["reason"]["message"]


@pytest.mark.real
@pytest.mark.alone
def test_half_a_cpu_is_half_a_cpu(server: DispatcherProcess, image: str) -> None:
    # Prints the cpu time, of itself and its children in hundredths, of 3 to 4 s of spinning.
    script = (
        "end=$(( $(date +%s) + 4 )); while [ $(date +%s) -lt $end ]; do :; done; "
        "awk '{print $14+$15+$16+$17}' /proc/$$/stat"
    )
    container_id = server.submit("sh", "-c", script, image=image, cpus=0.5, memory="64MiB")
    assert server.wait_final(container_id)["exit_code"] == 0
    used_s = int(server.log(container_id)) / 100
    assert used_s < 0.65 * 4, "it got more than half of a cpu"
    assert used_s > 0.5


@pytest.mark.real
def test_an_image_that_is_not_there_is_the_engines_failure(server: DispatcherProcess) -> None:
    container_id = server.submit("true", image="localhost/no-such-image", cpus=1, memory="64MiB")
    ended = server.wait_final(container_id)
    assert ended["state"] == "failed"
    assert ended["reason"]["code"] == "engine_failure"
    assert "no-such-image" in ended["reason"]["message"]


@pytest.mark.real
def test_a_command_that_is_not_there_is_told(server: DispatcherProcess, image: str) -> None:
    container_id = server.submit("/no/such/program", image=image, cpus=1, memory="64MiB")
    ended = server.wait_final(container_id)
    assert ended["state"] == "failed"
    assert ended["reason"]["code"] == "engine_failure"
    message = 'its program "/no/such/program" cannot be executed: no such file or directory'
    assert ended["reason"]["message"] == message


@pytest.mark.real
def test_cancelling_ends_a_container_that_ignores_term(
    server: DispatcherProcess, image: str
) -> None:
    script = "trap '' TERM; echo up; while :; do sleep 1; done"
    container_id = server.submit("sh", "-c", script, image=image, cpus=1, memory="64MiB")
    server.wait_state(container_id, "running")
    wait_for(lambda: server.log(container_id, follow=False), "it has begun")
    server.call("POST", f"/v1/containers/{container_id}/cancel", {})
    ended = server.wait_final(container_id)
    assert ended["state"] == "cancelled"
    assert ended["exit_code"] == 137


@pytest.mark.real
def test_what_was_cancelled_before_its_start_has_no_exit_code(tmp_path: Path, image: str) -> None:
    # An engine that is asked to end before it has started anything, and ends with 0.
    podman, up = find_tool("podman", "podman"), tmp_path / "up"
    slow = f'*" run "*) trap "exit 0" TERM; echo >{up}; while :; do sleep 0.1; done ;;'
    engine = tmp_path / "engine"
    engine.write_text(f'#!/bin/sh\ncase " $* " in {slow} esac\nexec {podman} "$@"\n')
    engine.chmod(0o755)
    config = {**CONFIG, "engine": {**ENGINE, "binary": str(engine)}}
    with DispatcherProcess(tmp_path, config) as server:
        container_id = server.submit("true", image=image, cpus=1, memory="64MiB")
        wait_for(up.exists, "the engine was asked to start it")
        server.call("POST", f"/v1/containers/{container_id}/cancel", {})
        ended = server.wait_final(container_id)
        assert (ended["state"], ended["exit_code"]) == ("cancelled", None)
        wait_for(lambda: not server.instances(), "the instance is gone")


@pytest.mark.real
def test_containers_survive_kill_9_of_the_dispatcher(tmp_path: Path, image: str) -> None:
    with DispatcherProcess(tmp_path, CONFIG) as server:
        script = "i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); sleep 0.1; done; exit 9"
        ids = [
            server.submit("sh", "-c", script, image=image, cpus=1, memory="64MiB") for _ in range(3)
        ]
        for container_id in ids:
            server.wait_state(container_id, "running")
        server.kill()
        server.start()
        expected = "".join(f"line {i}\n" for i in range(40)).encode()
        for container_id in ids:
            ended = server.wait_final(container_id)
            assert ended["exit_code"] == 9
            assert len(ended["attempts"]) == 1
            assert server.log(container_id) == expected
        wait_for(lambda: not server.instances(), "the instance is gone")
