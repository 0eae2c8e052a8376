"""`longshore driver list` and `longshore driver test`, as a person sees them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.cli.commands import conformance
from longshore.dispatcher.cli.commands.main import main
from longshore.drivers.interface import CLUSTER_TAG
from longshore.drivers.registry import DriverContext, driver
from tests.driver_bench import TYPE
from tests.sshd_host import wait_until

ROOT = Path(__file__).resolve().parents[2]
Capture = pytest.CaptureFixture[str]
SIMULATED = "{name: simulated, parameters: {boot_time_s: 0}}"
QUICK = ("--only", "create", "--only", "listed", "--only", "prices")


def written(directory: Path, of: str = SIMULATED, types: str = "") -> str:
    path = directory / "longshore.yml"
    small = "small: {cpus: 1, memory: 2GiB, price_per_hour: 0.05}"
    path.write_text(
        f"data_dir: {directory / 'data'}\ncluster: mine\ndriver: {of}\n"
        f"instance_types:\n  {types or small}\n",
        encoding="utf-8",
    )
    return str(path)


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A distribution whose driver cannot be loaded, as pip would have put it there."""
    tmp_path.joinpath("acme_broken.py").write_text("import there_is_no_such_module")
    information = tmp_path / "acme-1.0.dist-info"
    information.mkdir()
    information.joinpath("METADATA").write_text("Name: acme\nVersion: 1.0\n")
    points = "[longshore.drivers]\nacme = acme_broken:DRIVER\n"
    information.joinpath("entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("acme_broken", None)


def test_list_shows_what_each_driver_can_do(capsys: Capture) -> None:
    assert main(["driver", "list", "--json"]) == 0
    items = {item["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    loopback = items["loopback"]
    assert loopback == {
        "name": "loopback",
        "origin": "built-in",
        "summary": "this machine as the one instance",
        "capabilities": ["finds", "host-keys", "idempotent-create", "outlives-process"],
        "problem": None,
    }
    assert "power-off" in items["simulated"]["capabilities"]


@pytest.mark.usefixtures("plug_in")
def test_a_plug_in_that_cannot_be_loaded_is_listed_with_its_problem(capsys: Capture) -> None:
    assert main(["driver", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "ORIGIN", "SUMMARY", "CAPABILITIES"]
    (acme,) = (line for line in lines if line.startswith("acme"))
    assert "acme_broken:DRIVER" in acme
    assert "PROBLEM" in acme
    assert "there_is_no_such_module" in acme
    assert any(line.startswith("loopback") for line in lines)


def test_a_check_is_a_line_and_the_end_a_summary(tmp_path: Path, capsys: Capture) -> None:
    assert main(["driver", "test", "-c", written(tmp_path), *QUICK]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("driver simulated: all that is made carries longshore-cluster=conf")
    assert lines[1].startswith("passed ")
    assert "create: i-sim-" in lines[1]
    assert lines[3].startswith("not shown ")
    assert lines[3].endswith("prices: the driver does not claim prices")
    assert lines[4].startswith("2 passed, 0 failed, 1 not shown in ")
    assert lines[4].endswith("; nothing is left")


def test_json_is_one_document_with_every_check(tmp_path: Path, capsys: Capture) -> None:
    assert main(["driver", "test", "-c", written(tmp_path), *QUICK, "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["driver"], document["conforms"], document["left"]) == ("simulated", True, [])
    assert [(each["name"], each["outcome"]) for each in document["checks"]] == [
        ("create", "passed"),
        ("listed", "passed"),
        ("prices", "not shown"),
    ]
    assert document["checks"][1]["sentence"] == (
        "A new instance is listed with the tags of its create call, and not as of no use."
    )
    assert "passed" in captured.err, "people see how it goes on"


def test_a_driver_that_fails_a_check_exits_with_1(tmp_path: Path, capsys: Capture) -> None:
    of = "{name: simulated, parameters: {faults: {create_errors: 1}}}"
    assert main(["driver", "test", "-c", written(tmp_path, of), *QUICK]) == 1
    out = capsys.readouterr().out
    assert "failed " in out
    assert "create: it raises CloudError: a create call failed, as it was told to; look at" in out
    assert "listed: it takes an instance, and there is none: a create call failed" in out


def test_a_driver_that_cannot_be_made_exits_with_1(tmp_path: Path, capsys: Capture) -> None:
    of = "{name: 'tests.typed_driver:DRIVER', parameters: {zone: here}}"
    assert main(["driver", "test", "-c", written(tmp_path, of)]) == 1
    told = "the driver cannot be tried: CloudAuthError: nobody has an account here"
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--only", "everything"), "there is no check 'everything'; use one of registration"),
        (("--instance-type", "huge"), "there is no instance type 'huge'. Use one of small with"),
        (("--pause",), "--pause waits for Enter. Run it in a terminal"),
    ],
)
def test_what_is_typed_wrongly_exits_with_2(
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    told: str,
) -> None:
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(["driver", "test", "-c", written(tmp_path), *options]) == 2
    assert told in capsys.readouterr().err


def test_the_cheapest_type_that_stays_is_created_unless_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = (
        "dear: {cpus: 1, memory: 2GiB, price_per_hour: 9}\n"
        "  cheap: {cpus: 1, memory: 2GiB, price_per_hour: 1}\n"
        "  spot: {cpus: 1, memory: 2GiB, price_per_hour: 0.1, preemptible: true}\n"
    )
    seen: list[tuple[str, str, list[str], str]] = []

    def note(trial: Any, _: object, *, as_json: bool) -> int:
        assert not as_json
        others = [each.name for each in trial.other_types]
        seen.append((trial.instance_type.name, trial.preemptible_type.name, others, trial.image))
        return 0

    monkeypatch.setattr(conformance, "_run", note)
    path = written(tmp_path, types=types)
    assert main(["driver", "test", "-c", path]) == 0
    assert main(["driver", "test", "-c", path, "--instance-type", "dear", "--image", "new"]) == 0
    assert seen == [("cheap", "spot", ["dear"], ""), ("dear", "spot", ["cheap"], "new")]


def sshd(tmp_path: Path) -> str:
    return f"{{name: 'tests.sshd_driver:DRIVER', parameters: {{state_dir: {tmp_path / 'state'}}}}}"


def made(tmp_path: Path, *clusters: str) -> list[str]:
    """Create an instance for each cluster at the driver of real sshd; return their ids."""
    found = driver("tests.sshd_driver:DRIVER")
    context = DriverContext(cluster="x", state_dir=tmp_path / "state", clock=lambda: 0.0)
    with closing(found.make(found.parameters(), context)) as instances:
        return [
            instances.create(
                instance_type=TYPE,
                image="",
                tags={CLUSTER_TAG: cluster},
                init_command="",
                public_key="ssh-ed25519 AAAA",
                token=cluster,
            ).id
            for cluster in clusters
        ]


def there(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "state").glob("i-sshd-*"))


@pytest.mark.real
def test_destroy_existing_ends_the_clusters_own_and_what_earlier_tests_left(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, left, other, *foreign = made(
        tmp_path,
        *("mine", "conformance-12345678", "conformance-12345678-other"),
        *("theirs", "conformance-lab"),
    )
    command = ["driver", "test", "-c", written(tmp_path, sshd(tmp_path)), "--only", "registration"]
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert main([*command, "--destroy-existing"]) == 2
    said = capsys.readouterr().err
    assert f"to be destroyed: {mine} of cluster mine" in said
    assert f"to be destroyed: {left} of cluster conformance-12345678" in said
    assert f"to be destroyed: {other} of cluster conformance-12345678-other" in said
    assert not [each for each in foreign if each in said]
    assert "nobody is there to agree to that. Say --yes" in said
    assert there(tmp_path) == sorted([mine, left, other, *foreign])
    assert main([*command, "--destroy-existing", "--yes"]) == 0
    assert there(tmp_path) == sorted(foreign)
    assert main([*command, "--destroy-existing"]) == 0
    assert "there is nothing to destroy" in capsys.readouterr().err
    made_set = driver("tests.sshd_driver:DRIVER")
    context = DriverContext(cluster="x", state_dir=tmp_path / "state", clock=lambda: 0.0)
    for instance in made_set.make(made_set.parameters(), context).instances({}):
        instance.destroy()


def test_pause_waits_for_enter_with_the_address_in_view(tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    told = tmp_path / "told"
    command = [sys.executable, "-m", "longshore", "driver", "test", "-c", written(tmp_path)]
    with (
        told.open("wb") as sink,
        subprocess.Popen(
            [*command, "--pause", "--only", "create", "--only", "destroy"],
            cwd=ROOT,
            stdin=terminal,
            stdout=sink,
            stderr=sink,
        ) as process,
    ):
        os.close(terminal)
        try:
            wait_until(
                lambda: b"press Enter" in told.read_bytes() or process.poll() is not None,
                "the pause",
                timeout_s=60,
            )
            assert process.poll() is None, told.read_text()
            assert " is at 127.0.0.1:" in told.read_text()
            os.write(controller, b"\n")
            assert process.wait(60) == 0, told.read_text()
        finally:
            process.kill()
            os.close(controller)
    assert "2 passed" in told.read_text()
