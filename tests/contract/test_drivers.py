"""What every driver whose instances are on this machine must do; over plain SSH, as clients do."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import paramiko
import pytest
from _pytest.mark import ParameterSet

from longshore.drivers.errors import CloudError, InstanceNotFound, QuotaError
from longshore.drivers.interface import PowersOff
from longshore.drivers.local.processes import processes_of, start_time
from longshore.drivers.local.ssh_server import host_key_in, public_key_text
from longshore.pool.runner import containment
from longshore.pool.runner.spool import places
from tests.conftest import not_tested
from tests.driver_bench import CASES, TAGS, Bench, Case, made_directory
from tests.sshd_host import require_sshd, wait_until


def _parameters(cases: Iterable[Case]) -> list[ParameterSet]:
    real = [pytest.mark.real]
    return [
        pytest.param(case, id=case.name, marks=real if "sshd" in case.name else [])
        for case in cases
    ]


@pytest.fixture(params=_parameters(CASES))
def bench(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bench]:
    monkeypatch.chdir(tmp_path)
    if "sshd" in request.param.name:
        require_sshd()
    made = Bench(request.param, tmp_path)
    yield made
    for instance in made.set.instances({}):
        instance.destroy()
    made.set.close()


def test_a_new_instance_is_listed_with_its_tags_and_can_be_reached(bench: Bench) -> None:
    instance = bench.create()
    listed = bench.listed(instance.id)
    assert listed is not None
    assert dict(listed.tags) == TAGS
    environment = bench.run(instance, "env").splitlines()
    assert f"LONGSHORE_INSTANCE_ID={instance.id}" in environment
    names = {line.partition("=")[0] for line in environment}
    assert {"LONGSHORE_RUNNER_DIR", "LONGSHORE_HOST_KEYS", "PATH", "HOME"} <= names
    assert "LONGSHORE_TEST_SESSION" not in names


def test_the_host_key_is_that_of_its_public_file(bench: Bench) -> None:
    instance = bench.create()
    published = bench.run(instance, "cat $LONGSHORE_HOST_KEYS").split()[:2]
    with bench.connected(instance) as transport:
        shown = public_key_text(transport.get_remote_server_key())
    assert shown == " ".join(published)
    foreign = bench.public_key
    verdicts = instance.verify_host_key(shown), instance.verify_host_key(foreign)
    assert verdicts == bench.case.verdicts


def test_the_init_script_has_ended_before_the_first_login(bench: Bench) -> None:
    script = 'mkdir -p "$LONGSHORE_RUNNER_DIR"; printf sesame >"$LONGSHORE_RUNNER_DIR/s"'
    instance = bench.create(init=script)
    assert bench.run(instance, 'cat "$LONGSHORE_RUNNER_DIR/s"') == "sesame"


def test_the_init_script_is_in_no_command_line_and_in_no_file_of_others(bench: Bench) -> None:
    script = ": top-secret; exec >$LONGSHORE_RUNNER_DIR.seen; cat /proc/[0-9]*/cmdline; echo;"
    instance = bench.create(init=script + "stat -c %a $0; echo $0")
    seen = bench.run(instance, 'cat "$LONGSHORE_RUNNER_DIR.seen"')
    mode, path = seen.splitlines()[-2:]
    assert mode == "600"
    assert "top-secret" not in seen
    assert not Path(path).exists(), "it goes with its end"


def test_a_failing_init_script_does_not_keep_an_instance_from_booting(bench: Bench) -> None:
    assert bench.run(bench.create(init="exit 3"), "echo up") == "up\n"


def test_tags_are_set_over_the_others(bench: Bench) -> None:
    instance = bench.create()
    instance.set_tags({"longshore-idle-behavior": "hold", "longshore-type": "large"})
    listed = bench.listed(instance.id)
    assert listed is not None
    assert dict(listed.tags) == {
        "longshore-cluster": "contract",
        "longshore-type": "large",
        "longshore-idle-behavior": "hold",
    }


def test_only_instances_with_all_tags_are_listed(bench: Bench) -> None:
    instance = bench.create()
    assert [each.id for each in bench.set.instances(TAGS)] == [instance.id]
    assert bench.set.instances({**TAGS, "other": "tag"}) == []
    assert bench.set.instances({"longshore-cluster": "foreign"}) == []


def test_a_token_makes_one_instance(bench: Bench) -> None:
    assert bench.create("same").id == bench.create("same").id
    assert len(bench.set.instances({})) == 1


def test_concurrent_creates_make_one_instance_a_token(bench: Bench) -> None:
    tokens = [f"token-{number}" for number in range(bench.case.most)] * 2
    with ThreadPoolExecutor(len(tokens)) as threads:
        ids = list(threads.map(lambda token: bench.create(token).id, tokens))
    assert len(set(ids)) == len(tokens) // 2
    assert ids[: len(ids) // 2] == ids[len(ids) // 2 :]
    assert {each.id for each in bench.set.instances({})} == set(ids)


def test_the_limit_of_instances_is_a_quota(bench: Bench) -> None:
    ids = {bench.create(f"token-{number}").id for number in range(bench.case.most)}
    assert len(ids) == bench.case.most
    with pytest.raises(QuotaError):
        bench.create("one too many")


def test_destroying_ends_every_process_and_leaves_the_listing(bench: Bench) -> None:
    instance = bench.create()
    sleeper = "setsid sh -c 'exec sleep 600' </dev/null >/dev/null 2>&1 & echo $!"
    assert bench.run(instance, sleeper).strip().isdecimal()
    with bench.connected(instance) as transport:
        # One that hangs on its session, beside the detached one.
        transport.open_session().exec_command("exec sleep 601")
        wait_until(lambda: len(processes_of(instance.id)) >= 2, "both sleepers to run")
        instance.destroy()
        wait_until(lambda: bench.listed(instance.id) is None, "the instance to leave the listing")
        assert processes_of(instance.id) == []
        wait_until(lambda: not transport.is_active(), "the session to end")
    instance.destroy()
    with pytest.raises(InstanceNotFound):
        instance.set_tags({"longshore-type": "large"})
    assert bench.create("another").id != instance.id


def test_an_instance_that_powers_itself_off_is_as_good_as_destroyed(bench: Bench) -> None:
    command = bench.set.power_off_command() if isinstance(bench.set, PowersOff) else ""
    assert bool(command) == (bench.case.name == "simulated"), "the others end nobody's billing"
    if not command:
        return
    instance = bench.create()
    sleeper = "setsid sleep 604 </dev/null >/dev/null 2>&1 & echo $!"
    assert bench.run(instance, sleeper).strip().isdecimal()
    with bench.connected(instance) as transport:
        # Detached, as the runner that has nobody to talk to; the session may end with it.
        off = f"setsid /bin/sh -c {shlex.quote(command)} &"
        transport.open_session().exec_command(off)
        wait_until(lambda: bench.listed(instance.id) is None, "the instance to leave the listing")
        assert processes_of(instance.id) == []
        wait_until(lambda: not transport.is_active(), "the session to end")
    instance.destroy()


def test_an_instance_can_be_destroyed_before_it_has_booted(bench: Bench) -> None:
    def create() -> None:
        # The driver that waits for the boot tells the caller; the others have returned by then.
        with suppress(CloudError):
            bench.create(init="exec sleep 602")

    creator = threading.Thread(target=create)
    creator.start()
    wait_until(lambda: bool(bench.set.instances({})), "the instance to be listed")
    (instance,) = bench.set.instances({})
    if bench.case.name != "simulated":
        wait_until(lambda: bool(processes_of(instance.id)), "its init script to run")
    instance.destroy()
    wait_until(lambda: bench.listed(instance.id) is None, "the instance to leave the listing")
    creator.join()
    assert processes_of(instance.id) == []


def test_a_destroyed_instance_leaves_nothing_on_disk_or_in_memory(bench: Bench) -> None:
    instance = bench.create()
    directory = bench.run(
        instance, 'mkdir -p "$LONGSHORE_RUNNER_DIR/c"; echo $LONGSHORE_RUNNER_DIR'
    )
    there = places("c", {"LONGSHORE_RUNNER_DIR": directory.strip()})
    left = [Path(there.spool), Path(there.apart)]
    for each in left:
        each.mkdir(parents=True)
        each.joinpath("attempts").mkdir()
    instance.destroy()
    wait_until(lambda: bench.listed(instance.id) is None, "the instance to leave the listing")
    assert not [each for each in left if each.exists()]
    assert list(bench.state_dir.rglob(f"*{instance.id}*")) == []


def test_destroying_ends_also_what_only_its_control_group_knows(bench: Bench) -> None:
    roots = containment.hierarchies()
    if not roots:
        not_tested("control groups need root")
    instance = bench.create()
    directory = bench.run(
        instance, 'mkdir -p "$LONGSHORE_RUNNER_DIR/c"; echo $LONGSHORE_RUNNER_DIR'
    )
    name = places("c", {"LONGSHORE_RUNNER_DIR": directory.strip()}).name
    groups = [Path(root, name, "a") for root in (roots[0], roots[-1])]
    for group in groups:
        group.parent.mkdir(exist_ok=True)
        group.mkdir(exist_ok=True)
    joins = " ".join(f"echo 0 >{group}/cgroup.procs;" for group in groups)
    hidden = f"{joins} exec env -i sleep 621 </dev/null >/dev/null 2>&1"
    pid = int(bench.run(instance, f"setsid sh -c '{hidden}' & echo $!"))
    wait_until(lambda: pid not in processes_of(instance.id), "it to strip off our mark")
    wait_until(lambda: str(pid) in (groups[0] / "cgroup.procs").read_text(), "it to have joined")
    instance.destroy()
    wait_until(lambda: bench.listed(instance.id) is None, "the instance to leave the listing")
    assert start_time(pid) is None
    assert not [group for group in groups if group.parent.exists()]


def test_instances_outlive_the_driver_or_end_with_it(bench: Bench) -> None:
    instance = bench.create(init='echo once >>"$LONGSHORE_RUNNER_DIR.runs"')
    sleeper = int(bench.run(instance, "setsid sleep 603 </dev/null >/dev/null 2>&1 & echo $!"))
    wait_until(lambda: processes_of(instance.id) == [sleeper], "the session to be over")
    instance.set_tags({"longshore-idle-behavior": "hold"})
    bench.set.close()
    if not bench.case.survives:
        assert processes_of(instance.id) == []
        bench.set = bench.open()
        assert bench.set.instances({}) == []
        return
    assert processes_of(instance.id) == [sleeper]
    bench.set = bench.open()
    (again,) = bench.set.instances({**TAGS, "longshore-idle-behavior": "hold"})
    assert again.id == instance.id
    assert bench.run(again, 'cat "$LONGSHORE_RUNNER_DIR.runs"') == "once\n"
    wait_until(lambda: processes_of(instance.id) == [sleeper], "the session to be over")
    assert bench.create().id == instance.id


KILLED = """
import os, sys, time
from pathlib import Path
import msgspec
from longshore.drivers.registry import DriverContext, driver
from tests.driver_bench import TYPE, answers

name, state_dir, public_key, init, awaited = sys.argv[1:]
info = driver(name)
context = DriverContext(cluster="c", state_dir=Path(state_dir), clock=time.monotonic)
made = info.make(info.parameters(), context)
instance = made.create(
    instance_type=TYPE, image="", tags={}, init_command=init, public_key=public_key, token="token-1"
)
while not list(Path(state_dir).glob(awaited)):
    time.sleep(0.01)
while awaited == "*/ready" and not answers(instance.address or made.instances({})[0].address):
    time.sleep(0.01)
print(instance.id, flush=True)
os.kill(os.getpid(), 9)
"""


def create_and_be_killed(bench: Bench, init: str, awaited: str) -> str:
    """Create an instance in a process that is killed once a file is there; return its id."""
    arguments = [bench.case.name, str(bench.state_dir), bench.public_key, init, awaited]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        check=False,
    )
    assert done.returncode == -9
    return done.stdout.decode().strip()


@pytest.mark.parametrize(
    "bench", _parameters(case for case in CASES if case.survives), indirect=True
)
def test_instances_outlive_a_dispatcher_that_is_killed(bench: Bench) -> None:
    init = "setsid sleep 620 </dev/null >/dev/null 2>&1 & touch ready"
    bench.set.close()
    instance_id = create_and_be_killed(bench, init, "*/ready")
    wait_until(lambda: len(processes_of(instance_id)) == 1, "the init script to be over")
    (sleeper,) = processes_of(instance_id)
    bench.set = bench.open()
    (again,) = bench.set.instances({})
    assert again.id == bench.create().id == instance_id
    assert bench.run(again, "echo reached") == "reached\n"
    wait_until(lambda: processes_of(instance_id) == [sleeper], "the session to be over")
    again.destroy()
    assert processes_of(instance_id) == []


@pytest.mark.parametrize("bench", _parameters(CASES[:1]), indirect=True)
def test_an_init_script_that_a_crash_cut_short_runs_again_alone(bench: Bench) -> None:
    script = "echo $$ >>runs; mkfifo gate-$$; read line <gate-$$; echo $$ >>ends"
    bench.set.close()
    instance_id = create_and_be_killed(bench, script, "*/gate-*")
    directory = bench.state_dir / instance_id
    (gate,) = directory.glob("gate-*")
    bench.set = bench.open()
    (again,) = bench.set.instances({})
    wait_until(lambda: len(list(directory.glob("gate-*"))) == 2, "the script to run again")
    (second_gate,) = set(directory.glob("gate-*")) - {gate}
    cut_short, second = (int(each.name.removeprefix("gate-")) for each in (gate, second_gate))
    wait_until(lambda: processes_of(instance_id) == [second], "the second run to be alone")
    (directory / f"gate-{second}").write_text("go on\n")
    runs_and_ends = f"{cut_short}\n{second}\n{second}\n"
    assert bench.run(again, "cat runs ends") == runs_and_ends


def test_a_foreign_key_may_not_log_in(bench: Bench, tmp_path: Path) -> None:
    instance = bench.create()
    bench.run(instance, "true")
    bench.key = host_key_in(made_directory(tmp_path / "stranger"))
    with pytest.raises(paramiko.AuthenticationException):
        bench.run(instance, "true")
