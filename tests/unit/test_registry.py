"""Finding drivers: built-in ones, plug-ins of installed packages, and objects named outright."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from longshore.drivers.errors import ConfigError
from longshore.drivers.local.loopback import LoopbackParameters
from longshore.drivers.registry import DriverInfo, driver, driver_names
from longshore.drivers.simulated.parameters import SimulatedParameters

ROOT = Path(__file__).resolve().parents[2]

PLUG_IN = """
import msgspec
from longshore.drivers.registry import DriverInfo

class Parameters(msgspec.Struct):
    zone: str

DRIVER = DriverInfo(name="acme", summary="the cloud of Acme", parameters=Parameters, make=print)
NOT_A_DRIVER = 7
"""

ENTRY_POINTS = """
[longshore.drivers]
acme = acme_cloud:DRIVER
broken = acme_broken:DRIVER
loopback = acme_cloud:DRIVER
odd = acme_cloud:NOT_A_DRIVER
twice = acme_cloud:DRIVER
"""


@pytest.fixture
def plug_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two distributions, as pip would have put them there."""
    tmp_path.joinpath("acme_cloud.py").write_text(PLUG_IN)
    tmp_path.joinpath("acme_broken.py").write_text("import there_is_no_such_module")
    for name, points in (
        ("acme", ENTRY_POINTS),
        ("rival", "[longshore.drivers]\ntwice = acme_cloud:DRIVER\n"),
    ):
        information = tmp_path / f"{name}-1.0.dist-info"
        information.mkdir()
        information.joinpath("METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
        information.joinpath("entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in ("acme_cloud", "acme_broken"):
        sys.modules.pop(name, None)


def problem_of(name: str) -> str:
    """Return what is wrong with a driver, which must be one problem of `driver.name`."""
    with pytest.raises(ConfigError) as caught:
        driver(name)
    ((path, what),) = caught.value.problems
    assert path == "driver.name"
    return what


@pytest.mark.parametrize(
    ("name", "parameters"), [("loopback", LoopbackParameters), ("simulated", SimulatedParameters)]
)
def test_the_built_in_drivers(name: str, parameters: type) -> None:
    found = driver(name)
    assert (found.name, found.parameters) == (name, parameters)
    assert found.summary
    assert name in driver_names()


def test_an_unknown_name_is_answered_with_those_there_are() -> None:
    what = problem_of("loopbak")
    assert "'loopbak'" in what
    assert ", ".join(driver_names()) in what


@pytest.mark.usefixtures("plug_ins")
def test_a_plug_in_is_found_by_its_entry_point() -> None:
    plugged = {"acme", "broken", "odd", "twice"}
    assert plugged <= set(driver_names())
    assert driver_names() == sorted(driver_names())
    assert driver("acme").summary == "the cloud of Acme"


@pytest.mark.usefixtures("plug_ins")
def test_a_plug_in_cannot_take_over_a_built_in_name() -> None:
    assert driver("loopback").parameters is LoopbackParameters


@pytest.mark.usefixtures("plug_ins")
def test_a_broken_plug_in_is_named_when_it_is_asked_for() -> None:
    what = problem_of("broken")
    assert "'broken' (acme_broken:DRIVER)" in what
    assert "there_is_no_such_module" in what


OLD_IMPORTS = """
import sys
from longshore.drivers.errors import ConfigError
from longshore.drivers.registry import driver
try:
    driver(sys.argv[1])
except ConfigError as error:
    print(error.problems[0][1])
"""


def told_in_another_process(directory: Path, path: Sequence[Path]) -> str:
    """Return what is told of the driver `old_plug_in:DRIVER` in a directory."""
    searched = os.pathsep.join(map(str, [directory, *path]))
    done = subprocess.run(
        [sys.executable, "-P", "-c", OLD_IMPORTS, "old_plug_in:DRIVER"],
        env={**os.environ, "PYTHONPATH": searched},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("foreign", [False, True], ids=["alone", "beside PyPI's drivers"])
def test_a_plug_in_that_imports_the_old_name_is_told_the_new_one(
    tmp_path: Path, *, foreign: bool
) -> None:
    text = "from drivers.cloud_faults import DRIVER\n"
    tmp_path.joinpath("old_plug_in.py").write_text(text)
    if foreign:
        tmp_path.joinpath("drivers").mkdir()
        tmp_path.joinpath("drivers", "__init__.py").write_text("")
    told = told_in_another_process(tmp_path, [])
    assert "write `from longshore.drivers" in told
    assert "'old_plug_in:DRIVER'" in told


def test_a_driver_made_with_the_old_name_is_told_the_new_one(tmp_path: Path) -> None:
    text = PLUG_IN.replace("from longshore.drivers", "from drivers")
    tmp_path.joinpath("old_plug_in.py").write_text(text)
    assert "from longshore.drivers.registry import" in told_in_another_process(tmp_path, [ROOT])


@pytest.mark.usefixtures("plug_ins")
def test_a_plug_in_that_is_something_else_is_refused() -> None:
    assert "but a int" in problem_of("odd")


@pytest.mark.usefixtures("plug_ins")
def test_two_plug_ins_of_one_name_are_refused() -> None:
    assert "two plug-ins" in problem_of("twice")


@pytest.mark.usefixtures("plug_ins")
def test_an_object_can_be_named_outright() -> None:
    found = driver("acme_cloud:DRIVER")
    assert isinstance(found, DriverInfo)
    assert found.name == "acme"


@pytest.mark.parametrize(
    "name", ["nowhere:DRIVER", "longshore.drivers.errors:DRIVER", ":", "a:", ":b"]
)
def test_an_object_that_is_not_there_is_a_problem_not_a_crash(name: str) -> None:
    assert "cannot be loaded" in problem_of(name)
