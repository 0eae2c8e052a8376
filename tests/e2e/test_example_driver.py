"""The driver that docs/drivers.md teaches: pip-installed, held to the kit, and used."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

from longshore.dispatcher.conformance.kit import Outcome, Patience, run
from longshore.dispatcher.conformance.trial import make_trial
from longshore.drivers.interface import InstanceType, Resources
from longshore.drivers.registry import driver
from tests.dispatcher_process import DispatcherProcess, wait_for
from tests.toy_cloud import ToyCloud

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "tests" / "example_driver"

TYPE = InstanceType(
    name="small",
    provider_type="std.small",
    resources=Resources(cpu_millis=1000, memory_bytes=2**30),
    price_usd_per_hour=Decimal("0.05"),
)
PATIENCE = Patience(
    listing_lag_s=1.0,
    boot_timeout_s=90.0,
    gone_timeout_s=60.0,
    command_timeout_s=60.0,
    poll_interval_s=0.05,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example's package as its user would, into a directory of its own."""
    source = tmp_path_factory.mktemp("source") / "example"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("site")
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--quiet", "--target"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(target), str(source)],
        check=True,
        timeout=150,
    )
    return target


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[ToyCloud]:
    made = ToyCloud(tmp_path / "toy")
    yield made
    made.close()


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(site))
    yield
    sys.modules.pop("longshore_example", None)


def longshore(site: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line where the example is installed."""
    python_path = os.pathsep.join([str(ROOT), str(site)])
    return subprocess.run(
        [sys.executable, "-m", "longshore", *arguments],
        env={**os.environ, "PYTHONPATH": python_path, **environment},
        cwd=site,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def config_of(cloud: ToyCloud) -> dict[str, Any]:
    return {
        "driver": {"name": "example", "parameters": {"url": cloud.url, "token": cloud.token}},
        "instance_types": {
            "small": {
                "provider_type": "std.small",
                "cpus": 1,
                "memory": "1GiB",
                "price_per_hour": 0.05,
            }
        },
        "engine": {"name": "process"},
        "pool": {"idle_timeout_s": 2, "boot_timeout_s": 120},
    }


@pytest.mark.usefixtures("installed")
def test_the_kit_passes_with_every_error_for_its_cause(cloud: ToyCloud, tmp_path: Path) -> None:
    info = driver("example")
    parameters = importlib.import_module("longshore_example").ExampleParameters
    trial = make_trial(
        info,
        parameters(url=cloud.url, token=cloud.token),
        instance_type=TYPE,
        state_dir=tmp_path / "state",
        bed=cloud,
        patience=PATIENCE,
    )
    report = run(trial)
    failed = [f"{r.name}: {r.why}" for r in report.results if r.outcome is Outcome.FAILED]
    assert not failed, "\n".join(failed)
    assert report.left == ()
    not_shown = {r.name: r.why for r in report.results if r.outcome is Outcome.NOT_SHOWN}
    assert not_shown.pop("own-command")
    assert all("claim" in why for why in not_shown.values()), not_shown


def test_the_tests_of_the_example_pass(site: Path, cloud: ToyCloud, tmp_path: Path) -> None:
    # Elsewhere, since the guards of our own tests are none of theirs.
    tests = tmp_path / "tests"
    tests.mkdir()
    shutil.copy(EXAMPLE / "conformance_of_example.py", tests)
    # By name, since the plugin registers itself only where Longshore was installed with it.
    plugin = [
        "-p",
        "no:longshore_conformance",
        "-p",
        "longshore.dispatcher.conformance.pytest_plugin",
    ]
    ran = subprocess.run(
        [
            *[sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin],
            "conformance_of_example.py",
        ],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(site)]),
            "TOY_URL": cloud.url,
            "TOY_TOKEN": cloud.token,
        },
        cwd=tests,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert re.search(r"\d\d passed, \d+ skipped", ran.stdout), ran.stdout[-500:]


def test_the_driver_is_listed_and_its_parameters_are_checked(site: Path, tmp_path: Path) -> None:
    listed = longshore(site, "driver", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    (row,) = [each for each in json.loads(listed.stdout)["items"] if each["name"] == "example"]
    assert row["origin"] == "longshore_example:DRIVER"
    assert "host-keys" in row["capabilities"]
    wrong = {
        "driver": {"name": "example", "parameters": {"url": "toy:1", "token": "t"}},
        "instance_types": {
            "spot": {
                "provider_type": "std.small",
                "cpus": 1,
                "memory": "1GiB",
                "price_per_hour": 0.01,
                "preemptible": True,
            }
        },
    }
    file = tmp_path / "longshore.yml"
    file.write_text(yaml.safe_dump(wrong))
    checked = longshore(site, "config", "check", "-c", str(file))
    assert checked.returncode == 2
    said = checked.stdout + checked.stderr
    assert "driver.parameters.url" in said
    assert "is preemptible, which the toy cloud has not" in said


def test_a_container_runs_on_an_instance_of_the_example(
    site: Path, cloud: ToyCloud, tmp_path: Path
) -> None:
    config = config_of(cloud)
    with DispatcherProcess(tmp_path / "server", config, packages=[site]) as server:
        checked = longshore(site, "config", "check", "-c", str(server.config_path))
        assert checked.returncode == 0, checked.stderr
        command = ["submit", "--wait", "--", "sh", "-c", "echo to the log; exit 3"]
        submitted = longshore(site, *command, LONGSHORE_URL=server.url)
        assert submitted.returncode == 3, submitted.stderr
        (container_id,) = server.containers()
        logs = longshore(site, "logs", container_id, LONGSHORE_URL=server.url)
        assert logs.stdout == "to the log\n"
        (made,) = cloud.created
        assert server.container(container_id)["instance"] == made
        wait_for(lambda: not cloud.is_running(made), "the idle instance is shut down")
        assert server.stop() == 0
