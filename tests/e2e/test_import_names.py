"""The wheel in an environment of its own: it is all `longshore.…`, whatever else is installed."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

EVERYTHING = """
import importlib, pkgutil, sys
import longshore
skipped = ("longshore.__main__", "longshore.dispatcher.store.migrations.env")
names = [each.name for each in pkgutil.walk_packages(longshore.__path__, "longshore.")]
for name in names:
    if name not in skipped and ".migrations.versions." not in name:
        importlib.import_module(name)
bare = sorted(name for name in sys.modules if name.partition(".")[0] in BARE)
print(len(names), bare)
"""

BESIDE_OTHERS = """
from importlib.util import find_spec
from longshore.drivers.registry import driver
print(find_spec("drivers").origin, driver("simulated").name)
"""


def run(command: Sequence[str | Path], where: Path) -> str:
    """Run a program in a directory of its own; return what it printed."""
    done = subprocess.run(
        [str(each) for each in command],
        cwd=where,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def clean_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python that has the wheel, PyPI's `drivers`, and our dependencies from here."""
    directory = tmp_path_factory.mktemp("clean")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    run(build, ROOT)
    [wheel] = directory.glob("longshore-*.whl")
    venv.create(directory / "env", with_pip=False, symlinks=True)
    python = directory / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
    run([*pip, wheel, "drivers==0.1.0"], directory)
    [packages] = (directory / "env" / "lib").glob("python*/site-packages")
    [ours] = [each for each in sys.path if each.endswith("site-packages")]
    # Behind its own: the dependencies are there, and ours as it is installed here is shadowed.
    packages.joinpath("zz_dependencies.pth").write_text(
        f"import sys; sys.path.append({ours!r})\n", encoding="utf-8"
    )
    return python


def test_nothing_in_the_wheel_is_imported_by_a_bare_name(
    clean_python: Path, tmp_path: Path
) -> None:
    program = f"BARE = {{'dispatcher', 'drivers', 'pool'}}\n{EVERYTHING}"
    count, _, bare = run([clean_python, "-c", program], tmp_path).strip().partition(" ")
    assert int(count) > 300
    assert bare == "[]"


def test_the_drivers_of_others_and_a_stray_pool_harm_nothing(
    clean_python: Path, tmp_path: Path
) -> None:
    for name in ("pool", "dispatcher"):
        tmp_path.joinpath(f"{name}.py").write_text("raise RuntimeError('not ours')\n")
    foreign, name = run([clean_python, "-c", BESIDE_OTHERS], tmp_path).split()
    assert Path(foreign).is_relative_to(clean_python.parent.parent)
    assert name == "simulated"
    installed = [str(clean_python.parent / "longshore")]
    for command in (installed, [str(clean_python), "-m", "longshore"]):
        assert "longshore" in run([*command, "version"], tmp_path)
        assert "simulated" in run([*command, "driver", "list"], tmp_path)
