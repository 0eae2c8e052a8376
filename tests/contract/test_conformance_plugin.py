"""The kit as a pytest plugin, in the tests of somebody else's driver."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

from longshore.dispatcher.conformance.kit import CHECKS
from tests.conftest import not_tested

ROOT = Path(__file__).resolve().parents[2]
THEIRS = """
import contextlib
from dataclasses import replace

import pytest

from longshore.dispatcher.conformance.trial import make_trial
from longshore.drivers.simulated.driver import DRIVER
from longshore.drivers.simulated.parameters import SimulatedParameters
from tests.conformance_bed import PATIENCE
from tests.driver_bench import TYPE

@pytest.fixture(scope="module")
def conformance_trial(tmp_path_factory):
    return make_trial(
        {info},
        SimulatedParameters(boot_time_s=0.05),
        instance_type=TYPE,
        state_dir=tmp_path_factory.mktemp("state"),
        patience=replace(PATIENCE, gone_timeout_s={gone_timeout_s}),
    )

def test_the_driver_conforms(conformance_check):
    conformance_check()

def test_something_else():
    assert TYPE
"""
LEAKY = """
from tests.contract.test_conformance import _Undying
from longshore.drivers.simulated.cloud import SimulatedCloud

def leaky(parameters, context):
    made = _Undying(SimulatedCloud(parameters, state_dir=context.state_dir))
    made.close = made.cloud.close
    return made
"""


def run_theirs(directory: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run somebody's tests with the plugin and nothing else of ours."""
    directory.joinpath("test_theirs.py").write_text(text)
    return subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-p",
                "longshore.dispatcher.conformance.pytest_plugin",
            ),
            *("-rs", "-v", "--rootdir", str(directory), "-c", os.devnull, *options),
            str(directory / "test_theirs.py"),
        ],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTEST_ADDOPTS": "",
        },
    )


def test_each_check_is_a_test_and_what_cannot_be_shown_is_skipped(tmp_path: Path) -> None:
    done = run_theirs(tmp_path, THEIRS.format(info="DRIVER", gone_timeout_s=60))
    assert done.returncode == 0, done.stdout
    for check in CHECKS:
        assert f"test_the_driver_conforms[{check.name}]" in done.stdout
    assert "test_the_driver_conforms[destroy] PASSED" in done.stdout
    assert "the driver does not claim prices" in done.stdout
    assert "it takes a test bed" in done.stdout
    assert "failed" not in done.stdout.splitlines()[-1]


def test_a_driver_that_does_not_conform_fails_with_the_remedy(tmp_path: Path) -> None:
    info = 'replace(DRIVER, summary="")'
    text = THEIRS.format(info=info, gone_timeout_s=60)
    done = run_theirs(tmp_path, text, "-k", "registration or something_else")
    assert done.returncode == 1, done.stdout
    assert "its name or summary is empty; say in a few words what it is" in done.stdout
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]


def test_what_is_left_behind_fails_the_module(tmp_path: Path) -> None:
    text = LEAKY + THEIRS.format(info="replace(DRIVER, make=leaky)", gone_timeout_s=0.5)
    done = run_theirs(tmp_path, text, "-k", "create")
    assert done.returncode == 1, done.stdout
    assert "the kit left behind: i-sim-" in done.stdout
    assert "CloudError: not today" in done.stdout


def test_it_is_there_wherever_longshore_is_installed() -> None:
    points = importlib.metadata.entry_points(group="pytest11", name="longshore_conformance")
    if not points:
        not_tested("this checkout was installed before there was a plugin: tools/setup.sh dev")
    assert {point.value for point in points} == {"longshore.dispatcher.conformance.pytest_plugin"}
