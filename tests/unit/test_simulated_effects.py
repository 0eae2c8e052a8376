"""What happens in the simulated cloud happens to real processes, over real SSH."""

from __future__ import annotations

import calendar
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from longshore.drivers.errors import AmbiguousResult, CloudError
from longshore.drivers.interface import HostKeyVerdict, Instance, PowersOff, QuotaGroups
from longshore.drivers.local.processes import INSTANCE_VARIABLE, processes_of
from longshore.drivers.simulated.cloud import CloudEvent, SimulatedCloud
from longshore.drivers.simulated.driver import SimulatedInstanceSet
from longshore.drivers.simulated.notice import NoticeBoard, watch_command
from longshore.drivers.simulated.parameters import SimulatedParameters
from longshore.drivers.simulated.power import PowerLine
from longshore.pool.hostkey import init_fragment
from longshore.pool.remote.deploy import build_runner
from longshore.pool.remote.link import WorkerLink
from longshore.pool.remote.link_model import LinkReady, ProbeStage, ProbeStageError
from longshore.pool.remote.ssh import SshConnection
from longshore.pool.remote.ssh_keys import PrivateKey, load_or_create_private_key, public_key_text
from tests.driver_bench import FIRST, TYPE, answers
from tests.rigs.link import Recorder, link_settings, make_link, unknown
from tests.sshd_host import wait_until

SPOT = replace(TYPE, name="spot", preemptible=True)
SECRET = "sesame"  # noqa: S105 - of an instance that is gone in a moment


@pytest.fixture
def key(tmp_path: Path) -> PrivateKey:
    return load_or_create_private_key(tmp_path / "keys" / "id")


@contextmanager
def cloud(
    directory: Path, faults: dict[str, Any] | None = None, **others: Any
) -> Iterator[SimulatedCloud]:
    values = {"boot_time_s": 0, **others, "faults": faults or {}}
    made = SimulatedCloud(
        msgspec.convert(values, SimulatedParameters), state_dir=directory / "cloud"
    )
    try:
        yield made
    finally:
        made.close()


def create(made: SimulatedCloud, key: PrivateKey, token: str = FIRST) -> Instance:
    return made.create(
        instance_type=TYPE,
        tags={},
        init_command=init_fragment(SECRET),
        public_key=public_key_text(key),
        token=token,
    )


def events(made: SimulatedCloud) -> list[CloudEvent]:
    return [entry.event for entry in made.history()]


@contextmanager
def connected(instance: Instance, key: PrivateKey) -> Iterator[SshConnection]:
    wait_until(lambda: answers(instance.address), "the instance to boot")
    connection = SshConnection.connect(
        instance.address,
        user="root",
        private_key=key,
        expected_host_key="",
        deadline_s=20,
        verify=lambda _: HostKeyVerdict.GENUINE,
    )
    try:
        yield connection
    finally:
        connection.close()


def probe(instance: Instance, key: PrivateKey) -> LinkReady:
    """Do all that the pool does until a worker is ready, and hang up."""
    wait_until(lambda: answers(instance.address), "the instance to boot")
    settings = link_settings(key, bundle=build_runner(), engine_json='{"name":"process"}')
    link: WorkerLink = make_link(settings, Recorder())
    try:
        return link.probe(
            address=instance.address, host_key="", secret=SECRET, boot=True, verify=unknown
        )
    finally:
        link.close()


def test_an_instance_that_powers_itself_off_is_gone_with_all_that_runs(
    tmp_path: Path, key: PrivateKey
) -> None:
    with cloud(tmp_path) as made:
        first, second = create(made, key), create(made, key, "b")
        with connected(first, key) as connection:
            # Detached, as what the runner leaves behind: the session may be gone by then.
            connection.run("setsid sleep 640 >/dev/null 2>&1 &", deadline_s=20)
            # A process has no environment for a moment while it becomes another program.
            wait_until(lambda: len(processes_of(first.id)) == 1, "the process")
            connection.run(f"setsid sh -c '{made.power_off_command()}' &", deadline_s=20)
            wait_until(lambda: len(made.instances({})) == 1, "the instance to leave the listing")
        assert processes_of(first.id) == []
        assert not answers(first.address)
        assert [each.id for each in made.instances({})] == [second.id]
        assert events(made)[-2:] == [CloudEvent.ENDED_BY_ITSELF, CloudEvent.GONE]


def test_nobody_who_powers_off_is_blocked_and_strange_words_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "power-off"
    path.parent.mkdir()
    heard: list[str] = []
    line = PowerLine(path, heard.append)
    subprocess.run(f"printf 'one\\n\\377\\n\\n'; {line.command('two')}", shell=True, check=True)  # noqa: S602 - it is shell that is tested
    with path.open("r+b", buffering=0) as fifo:
        fifo.write(b"\xff\n\nthree\n")
    wait_until(lambda: "three" in heard, "what was written to be heard")
    line.close()
    assert heard == ["two", "\ufffd", "", "three"]
    os.mkfifo(path)
    subprocess.run(line.command("nobody"), shell=True, check=True, timeout=60)  # noqa: S602 - it is shell that is tested


def test_a_dead_boot_never_lets_anybody_in(tmp_path: Path, key: PrivateKey) -> None:
    with cloud(tmp_path, {"dead_boots": 1}) as made:
        instance = create(made, key)
        assert made.run_due() is None, "nothing is to happen any more"
        assert not answers(instance.address)
        assert events(made) == [CloudEvent.CREATED]
        assert [each.address for each in made.instances({})] == [instance.address]


def test_on_an_instance_without_a_runner_nothing_that_is_deployed_runs(
    tmp_path: Path, key: PrivateKey
) -> None:
    with cloud(tmp_path, {"without_runner": 1}) as made:
        instance = create(made, key)
        with pytest.raises(ProbeStageError, match="cannot run archives") as caught:
            probe(instance, key)
        assert caught.value.stage is ProbeStage.LIST, "its key was proven, and it was booted"


def test_an_instance_that_breaks_says_so_to_the_runner(tmp_path: Path, key: PrivateKey) -> None:
    faults = {"breaking": 1, "longest_life_s": 0.01}
    with cloud(tmp_path, faults) as made, cloud(tmp_path) as sound:
        instance = create(made, key)
        wait_until(lambda: CloudEvent.BROKE in events(made), "the instance to break")
        assert probe(instance, key).report.broken == "the simulated cloud broke this instance"
        assert probe(create(sound, key), key).report.broken == ""


def test_what_vanishes_takes_its_processes_along_and_is_listed_a_while_longer(
    tmp_path: Path, key: PrivateKey
) -> None:
    clock = [0.0]
    parameters = SimulatedParameters(
        boot_time_s=0,
        faults=msgspec.convert(
            {"vanishing": 1, "gone_lag_s": 100}, type(SimulatedParameters().faults)
        ),
    )
    made = SimulatedCloud(parameters, state_dir=tmp_path / "cloud", clock=lambda: clock[0])
    try:
        instance = create(made, key)
        with connected(instance, key) as connection:
            connection.run("setsid sleep 641 >/dev/null 2>&1 &", deadline_s=20)
            wait_until(lambda: len(processes_of(instance.id)) == 1, "the process")
            clock[0] += made.run_due() or 0
            left_s = made.run_due()
            assert events(made)[-1] is CloudEvent.ENDED_BY_ITSELF
            assert processes_of(instance.id) == []
            assert not answers(instance.address)
            wait_until(lambda: not connection.alive, "the connection to break")
        assert left_s is not None
        assert [each.id for each in made.instances({})] == [instance.id]
        instance.destroy()
        clock[0] += left_s
        assert made.instances({}) == []
    finally:
        made.close()


def test_an_instance_whose_answer_was_lost_is_there(tmp_path: Path, key: PrivateKey) -> None:
    with cloud(tmp_path, {"lost_answers": 1, "duplicates": 1}) as made:
        with pytest.raises(AmbiguousResult):
            create(made, key)
        first, second = made.instances({})
        assert first.id == second.id
        wait_until(lambda: answers(first.address), "it to boot")
        assert set(events(made)) == {CloudEvent.CREATED, CloudEvent.FAILED, CloudEvent.BOOTED}


def test_calls_that_fail_are_in_the_history(tmp_path: Path, key: PrivateKey) -> None:
    faults = dict.fromkeys(("listing_errors", "destroy_errors", "tag_errors"), 1)
    with cloud(tmp_path, faults) as made:
        instance = create(made, key)
        for call in (lambda: made.instances({}), instance.destroy, lambda: instance.set_tags({})):
            with pytest.raises(CloudError, match="as told"):
                call()
        assert events(made).count(CloudEvent.FAILED) == 3
        assert CloudEvent.DESTROYED not in events(made)


def test_what_this_machine_cannot_hold_is_an_error_and_leaves_the_listing(
    tmp_path: Path, key: PrivateKey
) -> None:
    with cloud(tmp_path) as made:
        (directory,) = (tmp_path / "cloud").iterdir()
        name = directory.name.removeprefix("cloud-")
        directory.joinpath(f"i-sim-{name}-00001").touch()
        with pytest.raises(CloudError, match="cannot hold"):
            create(made, key)
        assert made.instances({}) == []
        assert answers_in_time(create(made, key, "b"))


def answers_in_time(instance: Instance) -> bool:
    wait_until(lambda: answers(instance.address), "the instance to boot")
    return True


def test_the_driver_tells_quota_groups_and_how_to_power_off(tmp_path: Path) -> None:
    with cloud(tmp_path, quota_groups={"t1": "standard"}) as made:
        instance_set: object = SimulatedInstanceSet(made)
        assert isinstance(instance_set, QuotaGroups)
        assert isinstance(instance_set, PowersOff)
        assert instance_set.quota_group(TYPE) == "standard"
        assert instance_set.power_off_command() == made.power_off_command() != ""


def test_an_instance_hears_when_it_is_taken_back_and_who_asks_later_hears_it_again(
    tmp_path: Path, key: PrivateKey
) -> None:
    # The end is hours away, and there is notice of it from the first moment.
    faults = {"reclaims": 1, "longest_life_s": 86_000, "reclaim_notice_s": 86_400}
    with cloud(tmp_path / "a b", faults) as made, cloud(tmp_path) as quiet:
        instance = made.create(
            instance_type=SPOT,
            tags={},
            init_command="",
            public_key=public_key_text(key),
            token=FIRST,
        )
        other = create(quiet, key)
        with connected(instance, key) as connection:
            watch = f"/bin/sh -c {shlex.quote(made.interruption_watch())}"
            heard = [connection.run(watch, deadline_s=30) for _ in range(2)]
        assert [each.exit_status for each in heard] == [0, 0]
        first, second = (each.stdout.decode() for each in heard)
        assert first == second
        (fate,) = (each.fate for each in made._model.machines.values())
        assert fate.ends_after_s is not None
        left_s = calendar.timegm(time.strptime(first, "%Y-%m-%dT%H:%M:%SZ\n")) - time.time()
        assert fate.ends_after_s - 60 < left_s <= fate.ends_after_s
        with connected(other, key) as connection:
            watch = f"timeout 1 /bin/sh -c {shlex.quote(quiet.interruption_watch())}"
            assert connection.run(watch, deadline_s=30).exit_status == 124
        wait_until(lambda: not processes_of(other.id), "the watch to end")


def test_all_who_wait_for_a_notice_hear_it_and_nobody_waits_for_ever(tmp_path: Path) -> None:
    directory = tmp_path / "a b" / "i-1"
    directory.mkdir(parents=True)
    board = NoticeBoard(directory)
    command = ["sh", "-c", watch_command(directory.parent)]
    environment = {**os.environ, INSTANCE_VARIABLE: directory.name}
    with ExitStack() as stack:
        waiting = [
            stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, env=environment))
            for _ in range(3)
        ]
        wait_until(lambda: all(map(_holds_fifo, waiting)), "all to wait")
        board.give("2031-02-03T04:05:06Z")
        board.give("2041-02-03T04:05:06Z")
        assert [each.communicate(timeout=60)[0] for each in waiting] == [
            b"2031-02-03T04:05:06Z\n"
        ] * 3
    board.close()
    directory.joinpath("taken-back-at").unlink()
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode != 0


def _holds_fifo(process: subprocess.Popen[bytes]) -> bool:
    names = []
    for each in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            names.append(each.readlink().name)
    return "taken-back" in names
