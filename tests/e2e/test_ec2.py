"""Must show: containers on EC2's instances the whole way, whatever EC2 answers, and nothing left.

The cloud is moto's server behind the bed's proxy; its instances are real sshd on this machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dispatcher_process import FINAL_STATES, DispatcherProcess, processes_marked, wait_for
from tests.ec2_bed.bed import Ec2Bed
from tests.ec2_bed.faults import Fault, Kind
from tests.sshd_host import require_sshd

ROOT = Path(__file__).resolve().parents[2]
CONTAINERS = 100
INSTANCES = 8
ROUNDS = 8
LATER = 2 * INSTANCES
PATIENCE_S = 150

LISTING, ENDING, TAGGING = "DescribeInstances", "TerminateInstances", "CreateTags"
SPOT = (("InstanceMarketOptions.MarketType", "spot"),)


def refused(code: str, *, status: int = 400, action: str = "RunInstances", **more: Any) -> Fault:
    return Fault(kind=Kind.ERROR, action=action, code=code, status=status, **more)


def trouble(bed: Ec2Bed) -> list[Fault]:
    """Every kind of trouble with every call, in an order that lets some creates pass in between."""
    first, second = bed.subnets
    return [
        Fault(kind=Kind.LOST_REQUEST),
        refused("Unavailable", status=503),
        # One subnet is short, and the other is not; then both are.
        refused("InsufficientInstanceCapacity", status=500, where=(("SubnetId", first),)),
        Fault(kind=Kind.LOST_ANSWER),
        refused("RequestLimitExceeded", status=503, after=1),
        refused("InsufficientInstanceCapacity", status=500, where=(("SubnetId", first),)),
        refused("InsufficientInstanceCapacity", status=500, where=(("SubnetId", second),)),
        refused("MaxSpotInstanceCountExceeded", where=SPOT, after=1),
        refused("InstanceLimitExceeded"),
        Fault(kind=Kind.ERROR_AFTER, code="InternalError", status=500, after=1),
        refused("VcpuLimitExceeded"),
        refused("InsufficientFreeAddressesInSubnet", where=(("SubnetId", first),)),
        refused("Unsupported", where=(("SubnetId", first),)),
        refused("SpotMaxPriceTooLow", where=SPOT),
        Fault(kind=Kind.LATE_ANSWER, delay_s=6.0, after=1),
        refused("VolumeLimitExceeded"),
        refused("AuthFailure", status=401, after=1),
        refused("SomethingNew"),
        refused("RequestLimitExceeded", status=503, action="DescribeKeyPairs"),
        Fault(kind=Kind.LOST_ANSWER, action="ImportKeyPair"),
        refused("RequestLimitExceeded", status=503, action=LISTING, after=3),
        refused("InternalError", status=500, action=LISTING, after=3),
        Fault(kind=Kind.LOST_ANSWER, action=LISTING, after=3),
        Fault(kind=Kind.LACKS_NEW, action=LISTING),
        Fault(kind=Kind.TWICE, action=LISTING),
        Fault(kind=Kind.CUT, action=LISTING, after=1),
        Fault(kind=Kind.SHOWS_GONE, action=LISTING),
        Fault(kind=Kind.STALE_TAGS, action=LISTING),
        refused("RequestLimitExceeded", status=503, action=ENDING),
        Fault(kind=Kind.LOST_ANSWER, action=ENDING),
        Fault(kind=Kind.LOST_REQUEST, action=ENDING),
        Fault(kind=Kind.ERROR_AFTER, code="InternalError", status=500, action=ENDING),
        refused("InternalError", status=500, action=TAGGING),
        Fault(kind=Kind.LOST_ANSWER, action=TAGGING),
    ]


def config(bed: Ec2Bed, **parameters: Any) -> dict[str, Any]:
    cores = {"cpus": 4, "memory": "8GiB"}
    return {
        "driver": {"name": "ec2", "parameters": bed.parameters(**parameters)},
        "instance_types": {
            "node": {"provider_type": "m5.large", "price_per_hour": 0.096, **cores},
            "node-spot": {
                "provider_type": "m5.large",
                "price_per_hour": 0.03,
                "preemptible": True,
                **cores,
            },
            "other": {"provider_type": "c5.large", "price_per_hour": 0.1, **cores},
        },
        "engine": {"name": "process"},
        "scheduler": {"max_instances": INSTANCES},
        "pool": {
            "image": bed.image,
            "idle_timeout_s": 1,
            "boot_timeout_s": 120,
            "sync_interval_s": 1,
            "shutdown_timeout_s": 1,
            "quota_hold_s": 0.3,
            "capacity_hold_s": 0.3,
        },
    }


def request(number: int) -> dict[str, Any]:
    """Container N writes N lines, and ends with N % 7 after half a second."""
    script = (
        f"i=0; while [ $i -lt {number} ]; do echo line $i of {number}; i=$((i+1)); done; "
        f"echo error of {number} >&2; sleep 0.5; exit {number % 7}"
    )
    return {
        "command": ["sh", "-c", script],
        "name": f"n{number}",
        "cpus": (1, 2)[number % 2],
        "memory": "256MiB",
    }


@pytest.fixture(scope="module")
def shared_bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ec2Bed]:
    require_sshd()
    with Ec2Bed(tmp_path_factory.mktemp("ec2")) as made:
        yield made


@pytest.fixture
def bed(shared_bed: Ec2Bed) -> Iterator[Ec2Bed]:
    shared_bed.clear()
    yield shared_bed
    shared_bed.clear()


def submit(server: DispatcherProcess, directory: Path, numbers: range) -> list[str]:
    """Submit containers with the command line, and return their ids in order."""
    file = directory / "containers.json"
    file.write_text(json.dumps([request(number) for number in numbers]), encoding="utf-8")
    arguments = ["submit", "--url", server.url, "--json", "-f", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "longshore", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    return [item["id"] for item in json.loads(done.stdout)["items"]]


def hold_and_release(server: DispatcherProcess) -> None:
    """Change the tags of an instance twice, as an admin does who looks at it."""
    for instance_id in sorted(server.instances())[:1]:
        for wish in ("hold", "run"):
            server.call(
                "PUT", f"/v1/instances/{instance_id}/idle-behavior", {"idle_behavior": wish}
            )


@pytest.mark.real
@pytest.mark.timeout(600)
def test_a_hundred_containers_while_everything_goes_wrong_once(bed: Ec2Bed, tmp_path: Path) -> None:
    orders = trouble(bed)
    with DispatcherProcess(tmp_path, config(bed, read_timeout_s=3)) as server:
        bed.plan.order(*orders)
        ids: list[str] = []
        for round_ in range(ROUNDS):
            count = LATER if round_ else CONTAINERS
            ids += submit(server, tmp_path, range(len(ids), len(ids) + count))
            wait_for(server.instances, "an instance", timeout_s=PATIENCE_S)
            hold_and_release(server)

            def all_ended() -> bool:
                return all(c["state"] in FINAL_STATES for c in server.containers().values())

            wait_for(all_ended, f"the end of round {round_ + 1}", timeout_s=PATIENCE_S)
            wait_for(lambda: not bed.billed(), "the idle instances to go", timeout_s=PATIENCE_S)
            wait_for(lambda: not server.instances(), "them to be forgotten", timeout_s=PATIENCE_S)
            if not bed.plan.still_open():
                break
        assert bed.plan.still_open() == []
        assert bed.plan.happened == Counter(each.name for each in orders)
        check_containers(server, ids)
        # A create that nobody got an answer to stays in doubt until it would have booted.
        leaks = server.call("GET", "/v1/leaks")["items"]
        assert [each for each in leaks if each["instance"] is not None] == []
        assert server.stop() == 0
    truth = bed.truth()
    assert truth
    assert bed.billed() == []
    assert bed.twins() == {}, "no token made two instances"
    assert bed.machines.trouble() == []
    wait_for(lambda: not bed.machines.running(), "the machines to end")
    assert processes_marked([each.id for each in truth]) == []


def check_containers(server: DispatcherProcess, ids: list[str]) -> None:
    containers = server.containers()
    assert sorted(containers) == sorted(ids)
    for number, container_id in enumerate(ids):
        container = containers[container_id]
        assert container["exit_code"] == number % 7
        assert [a["outcome"] for a in container["attempts"]] == [
            "failed" if number % 7 else "succeeded"
        ]
        expected = "".join(f"line {i} of {number}\n" for i in range(number))
        assert server.log(container_id).decode() == expected
        assert server.log(container_id, "stderr").decode() == f"error of {number}\n"


@pytest.mark.real
def test_a_dispatcher_killed_before_the_answer_to_its_create_adopts_the_instance(
    bed: Ec2Bed, tmp_path: Path
) -> None:
    bed.plan.order(Fault(kind=Kind.LATE_ANSWER, delay_s=PATIENCE_S))
    with DispatcherProcess(tmp_path, config(bed)) as server:
        with bed.plan.standing(Fault(kind=Kind.LACKS_NEW, action=LISTING)):
            container = server.submit("sh", "-c", "echo here; exit 5")
            (instance_id,) = wait_for(bed.billed, "the instance that nobody was told of")
            assert server.instances() == {}
            server.kill()
        server.start()
        ended = server.wait_final(container, timeout_s=PATIENCE_S)
        assert (ended["exit_code"], ended["instance"]) == (5, instance_id)
        assert server.log(container) == b"here\n"
        wait_for(lambda: not bed.billed(), "the idle instance to go", timeout_s=PATIENCE_S)
    assert [each.id for each in bed.truth()] == [instance_id], "it was the only one"


@pytest.mark.real
def test_what_ran_on_a_spot_instance_that_is_taken_back_runs_again_elsewhere(
    bed: Ec2Bed, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with DispatcherProcess(tmp_path, config(bed)) as server:
        script = f"echo here; while [ ! -e {gate} ]; do sleep 0.05; done; exit 3"
        container = server.submit("sh", "-c", script, constraints={"preemptible": "required"})
        taken = server.wait_state(container, "running", timeout_s=PATIENCE_S)["instance"]
        assert [each.spot for each in bed.truth()] == [True]
        bed.take_back(taken)
        wait_for(lambda: taken not in bed.machines.running(), "the machine to end")
        gate.touch()
        ended = server.wait_final(container, timeout_s=PATIENCE_S)
        assert ended["exit_code"] == 3
        first, second = (each["outcome"] for each in ended["attempts"])
        assert (first, second) == ("lost", "failed"), "without a notice it is just gone"
        assert ended["attempts"][0]["instance"] == taken
        assert ended["instance"] != taken
        wait_for(lambda: not bed.billed(), "the idle instance to go", timeout_s=PATIENCE_S)


@pytest.mark.real
def test_a_spot_instance_that_has_notice_gets_no_new_work_and_what_it_takes_along_was_preempted(
    bed: Ec2Bed, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    at = "2031-02-03T04:05:06Z"
    with DispatcherProcess(tmp_path, config(bed)) as server:

        def running() -> tuple[str, str]:
            """Submit a container, and return its id and where it runs."""
            script = f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 3"
            made = server.submit("sh", "-c", script, constraints={"preemptible": "required"})
            where = server.wait_state(made, "running", timeout_s=PATIENCE_S)["instance"]
            return made, where

        first, taken = running()
        bed.metadata.give_notice(taken, at)
        wait_for(
            lambda: server.instances()[taken]["taken_back_at"] == at,
            "the notice",
            timeout_s=PATIENCE_S,
        )
        second, other = running()
        assert other != taken, "there is room, and it gets no new work"
        assert server.container(first)["instance"] == taken, "what runs there goes on"
        bed.take_back(taken)
        wait_for(lambda: taken not in bed.machines.running(), "the machine to end")
        gate.touch()
        ended = [server.wait_final(each, timeout_s=PATIENCE_S) for each in (first, second)]
        told = [[(a["instance"], a["outcome"]) for a in each["attempts"]] for each in ended]
        assert told[0][0] == (taken, "preempted")
        assert ended[0]["attempts"][0]["reason"]["code"] == "interrupted"
        assert [outcome for _, outcome in told[0][1:]] == ["failed"]
        assert told[1] == [(other, "failed")]
        wait_for(lambda: not bed.billed(), "the idle instances to go", timeout_s=PATIENCE_S)


# ---- a server that starts while listings lack what runs ------------------------------------------


def runs_alone(server: DispatcherProcess, gate: Path) -> tuple[str, str]:
    """Let a container run until `gate` is there; return its id and that of its instance."""
    container = server.submit("sh", "-c", f"while [ ! -e {gate} ]; do sleep 0.05; done; exit 3")
    return container, server.wait_state(container, "running", timeout_s=PATIENCE_S)["instance"]


@pytest.mark.real
def test_what_runs_goes_on_when_the_listings_after_a_restart_lack_its_instance(
    bed: Ec2Bed, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with DispatcherProcess(tmp_path, config(bed)) as server:
        container, where = runs_alone(server, gate)
        assert server.stop() == 0
        by_id = refused(
            "InvalidInstanceID.NotFound", action=LISTING, where=(("InstanceId.1", where),)
        )
        lacking = Fault(kind=Kind.LACKS_ALL, action=LISTING)
        with bed.plan.standing(by_id, lacking):
            server.start()
            wait_for(lambda: bed.plan.happened[lacking.name] > 3, "listings that lack it")
            found = server.container(container)
            assert [(a["instance"], a["outcome"]) for a in found["attempts"]] == [(where, None)]
            assert found["state"] == "running"
            assert server.instances().keys() == {where}
            wait_for(lambda: bed.plan.happened[by_id.name], "the question for it by its id")
        gate.touch()
        ended = server.wait_final(container, timeout_s=PATIENCE_S)
        assert [(a["instance"], a["outcome"]) for a in ended["attempts"]] == [(where, "failed")]
        assert ended["exit_code"] == 3
        wait_for(lambda: not bed.billed(), "the idle instance to go", timeout_s=PATIENCE_S)
    assert [each.id for each in bed.truth()] == [where], "nobody bought another beside it"


@pytest.mark.real
def test_what_ran_where_ec2_says_that_it_has_ended_runs_again_at_once(
    bed: Ec2Bed, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with DispatcherProcess(tmp_path, config(bed)) as server:
        container, where = runs_alone(server, gate)
        assert server.stop() == 0
        bed.take_back(where)
        wait_for(lambda: where not in bed.machines.running(), "the machine to end")
        server.start()
        gate.touch()
        # Without the word on its id it would count for `gone_after_s`, three minutes.
        ended = server.wait_final(container, timeout_s=PATIENCE_S)
        outcomes = [(a["instance"] == where, a["outcome"]) for a in ended["attempts"]]
        assert outcomes == [(True, "lost"), (False, "failed")]
        wait_for(lambda: not bed.billed(), "the idle instance to go", timeout_s=PATIENCE_S)
