"""The simulated cloud's own rules: its limits, its delays, its memory; on a clock of the test's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import yaml

from longshore.drivers.errors import (
    AmbiguousResult,
    CapacityError,
    CloudError,
    ErrorScope,
    QuotaError,
)
from longshore.drivers.interface import Instance
from longshore.drivers.local.processes import processes_of
from longshore.drivers.simulated.cloud import CloudEvent, SimulatedCloud
from longshore.drivers.simulated.parameters import SimulatedParameters
from tests.driver_bench import TYPE
from tests.sshd_host import wait_until

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


@contextmanager
def cloud(directory: Path, **parameters: object) -> Iterator[SimulatedCloud]:
    """A cloud with these parameters, decoded as from a configuration."""
    made = SimulatedCloud(msgspec.convert(parameters, SimulatedParameters), state_dir=directory)
    try:
        yield made
    finally:
        made.close()


def create(
    made: SimulatedCloud, token: str, *, provider_type: str = "t1", init: str = ""
) -> Instance:
    type_ = replace(TYPE, provider_type=provider_type)
    return made.create(instance_type=type_, tags={}, init_command=init, public_key=KEY, token=token)


def accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 5.0).close()
    except ConnectionRefusedError:
        return False
    return True


def test_connections_are_refused_until_an_instance_has_booted(tmp_path: Path) -> None:
    with cloud(tmp_path, boot_time_s=1.5) as made:
        began = time.monotonic()
        instance = create(made, "a")
        assert not accepts(instance.address)
        wait_until(lambda: accepts(instance.address), "the instance to boot")
        assert time.monotonic() - began >= 1.5
        assert [entry.event for entry in made.history()] == [CloudEvent.CREATED, CloudEvent.BOOTED]
        created, booted = made.history()
        assert booted.time - created.time >= 1.5


def test_connections_are_refused_while_the_init_script_runs(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with cloud(tmp_path / "cloud", boot_time_s=0) as made:
        instance = create(made, "a", init=f"echo running >{gate}; read line <{gate}")
        assert gate.read_text() == "running\n"
        assert not accepts(instance.address)
        gate.write_text("go on\n")
        wait_until(lambda: accepts(instance.address), "the instance to boot")


class Clock:
    """Time as the test says it is."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def boot_times(directory: Path, *, seed: int) -> list[float]:
    """Return after how many seconds each of three instances, created at once, boots."""
    clock = Clock()
    parameters = SimulatedParameters(boot_time_s=10, boot_jitter_s=5, seed=seed)
    made = SimulatedCloud(parameters, state_dir=directory, clock=clock)
    for token in ("a", "b", "c"):
        create(made, token)
    while (wait_s := made.run_due()) is not None:
        clock.now += wait_s
    times = [entry.time for entry in made.history() if entry.event is CloudEvent.BOOTED]
    made.close()
    return times


def test_jitter_follows_the_seed(tmp_path: Path) -> None:
    times = boot_times(tmp_path, seed=1)
    assert len(set(times)) == 3
    assert all(10 <= each <= 15 for each in times)
    assert boot_times(tmp_path, seed=1) == times
    assert boot_times(tmp_path, seed=2) != times


def test_the_quota_counts_what_is_still_listed(tmp_path: Path) -> None:
    with cloud(tmp_path, quota=1, destroy_delay_s=1.5) as made:
        instance = create(made, "a")
        with pytest.raises(QuotaError):
            create(made, "b")
        instance.destroy()
        assert [each.id for each in made.instances({})] == [instance.id]
        assert made.instances({})[0].address == ""
        with pytest.raises(QuotaError):
            create(made, "b")
        wait_until(lambda: made.instances({}) == [], "the instance to go")
        create(made, "b")
        events = [entry.event.value for entry in made.history()]
        refusals = ["over_quota", "destroyed", "over_quota"]
        assert events == ["created", *refusals, "gone", "created"]


def test_capacity_is_short_for_one_type_only(tmp_path: Path) -> None:
    with cloud(tmp_path, capacity={"t1": 1, "t2": 0}) as made:
        create(made, "a")
        for token, provider_type in (("b", "t1"), ("c", "t2")):
            with pytest.raises(CapacityError) as caught:
                create(made, token, provider_type=provider_type)
            assert caught.value.scope is ErrorScope.TYPE
        create(made, "d", provider_type="t3")
        refused = [e for e in made.history() if e.event is CloudEvent.AT_CAPACITY]
        assert [(entry.provider_type, entry.instance_id) for entry in refused] == [
            ("t1", ""),
            ("t2", ""),
        ]


def test_a_refused_token_is_not_used_up(tmp_path: Path) -> None:
    with cloud(tmp_path, quota=1) as made:
        first = create(made, "a")
        with pytest.raises(QuotaError):
            create(made, "b")
        first.destroy()
        assert create(made, "b").id != first.id
        assert create(made, "a").id == first.id, "a token stands for its instance even when gone"
        assert len(made.instances({})) == 1


def test_an_instance_is_listed_while_its_create_call_still_waits(tmp_path: Path) -> None:
    with cloud(tmp_path, create_delay_s=1.5) as made:
        began = time.monotonic()
        creator = threading.Thread(target=create, args=(made, "a"))
        creator.start()
        wait_until(lambda: len(made.instances({})) == 1, "the instance to be listed")
        assert time.monotonic() - began < 1.5
        creator.join()
        assert time.monotonic() - began >= 1.5


def test_a_cloud_that_closes_leaves_a_waiting_create_call_in_doubt(tmp_path: Path) -> None:
    doubts: list[AmbiguousResult] = []
    with cloud(tmp_path, create_delay_s=60) as made:

        def wait_in_vain() -> None:
            try:
                create(made, "a")
            except AmbiguousResult as doubt:
                doubts.append(doubt)

        creator = threading.Thread(target=wait_in_vain)
        creator.start()
        wait_until(lambda: len(made.instances({})) == 1, "the instance to be listed")
    creator.join()
    assert len(doubts) == 1
    with pytest.raises(CloudError):
        made.instances({})


def test_ids_are_never_used_again_by_another_cloud(tmp_path: Path) -> None:
    with cloud(tmp_path) as one, cloud(tmp_path) as another:
        assert create(one, "a").id != create(another, "a").id


def test_a_closed_cloud_leaves_nothing_on_disk(tmp_path: Path) -> None:
    with cloud(tmp_path) as made:
        create(made, "a")
        assert list(tmp_path.rglob("i-sim-*"))
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, sys, time
from pathlib import Path
from longshore.drivers.simulated.cloud import SimulatedCloud
from longshore.drivers.simulated.parameters import SimulatedParameters
from tests.driver_bench import TYPE
cloud = SimulatedCloud(SimulatedParameters(boot_time_s=0), state_dir=Path(sys.argv[1]))
instance = cloud.create(instance_type=TYPE, tags={}, public_key="", token="t",
    init_command="setsid sleep 618 </dev/null >/dev/null 2>&1 & echo up >ready")
while not list(Path(sys.argv[1]).glob("*/*/ready")): time.sleep(0.01)
print(instance.id, flush=True)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_cloud_left_running_ends_with_the_next_one(tmp_path: Path) -> None:
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert killed.returncode == -9
    instance_id = killed.stdout.decode().strip()
    assert len(processes_of(instance_id)) == 1
    with cloud(tmp_path) as made:
        assert processes_of(instance_id) == []
        assert made.instances({}) == []
        with cloud(tmp_path):
            assert len(list(tmp_path.glob("cloud-*"))) == 2, "a living cloud is left alone"


def test_the_example_explains_every_parameter_with_its_default() -> None:
    text = Path(__file__).parents[2].joinpath("config.example.yml").read_text(encoding="utf-8")
    block = text.partition("#   name: simulated\n#   parameters:\n")[2].partition("\n\n")[0]
    shown = yaml.safe_load("\n".join(line.removeprefix("#") for line in block.splitlines()))
    assert shown == msgspec.json.decode(msgspec.json.encode(SimulatedParameters()))


@pytest.mark.parametrize(
    "parameters",
    [
        {"boot_time_s": -1},
        {"quota": -1},
        {"capacity": {"": 1}},
        {"capacity": {"t1": -1}},
        {"boot_time": 1},
    ],
)
def test_parameters_have_bounds(parameters: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(parameters, SimulatedParameters)
