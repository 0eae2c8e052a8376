"""What is installed is complete, needs only what it declares, and set-up knows what tests need."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("dispatcher", "pool", "drivers")
NAMES = ("__init__.py", "__main__.py", "client.py", "py.typed")
RUNNER = ROOT / "pool" / "runner"
PROJECT = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())["project"]


MAY_IMPORT = {
    # There whenever the module is: it is a plug-in of that.
    "dispatcher/conformance/pytest_plugin.py": {"pytest"},
    # Of the extra `parquet`: the module says what to install where it is missing.
    "dispatcher/cli/bill_files.py": {"pyarrow"},
    # Of the extra `otel`: the configuration is refused where it is missing.
    "dispatcher/traces/otlp.py": {"opentelemetry"},
}
"""What a module may import though it is no runtime dependency."""


def imported_names(path: Path) -> set[str]:
    """Return the top-level names that a module imports, wherever in it, except for types only."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def distribution_of(requirement: str) -> str:
    """Return the normalised name in a requirement such as `prometheus-client>=0.21`."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def test_every_import_is_declared_as_a_runtime_dependency() -> None:
    declared = {distribution_of(each) for each in PROJECT["dependencies"]}
    distributions = importlib.metadata.packages_distributions()
    own = {*sys.stdlib_module_names, "longshore"}
    undeclared = [
        f"{path.relative_to(ROOT)} imports {name}"
        for package in PRODUCT
        for path in sorted(ROOT.joinpath(package).rglob("*.py"))
        for name in sorted(
            imported_names(path) - own - MAY_IMPORT.get(str(path.relative_to(ROOT)), set())
        )
        if not declared & {distribution_of(each) for each in distributions.get(name, [name])}
    ]
    assert not undeclared, "\n".join(["", *undeclared])


def test_the_runner_imports_the_standard_library_only() -> None:
    paths = sorted(RUNNER.rglob("*.py"))
    foreign = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in sorted(imported_names(path) - sys.stdlib_module_names)
        if name != "longshore"
    ]
    assert foreign == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """Yield the wheel that this checkout makes, built without the network."""
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=120,
    )
    [path] = directory.glob("longshore-*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_holds_every_module_and_nothing_of_the_checkout(wheel: zipfile.ZipFile) -> None:
    modules = {f"longshore/{name}" for name in NAMES} | {
        f"longshore/{path.relative_to(ROOT).as_posix()}"
        for package in PRODUCT
        for path in ROOT.joinpath(package).rglob("*.py")
    }
    names = set(wheel.namelist())
    assert modules - names == set()
    bundle = {
        Path(name).suffix for name in names if name.startswith("longshore/dispatcher/api/bun")
    }
    assert bundle >= {".html", ".js", ".css", ".txt"}, "the dashboard, with its licences"
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"longshore"}


def test_the_wheel_names_its_command_and_its_licence(wheel: zipfile.ZipFile) -> None:
    [points] = [name for name in wheel.namelist() if name.endswith("/entry_points.txt")]
    assert "longshore = longshore.dispatcher.cli.commands.main:main" in wheel.read(points).decode()
    [metadata] = [name for name in wheel.namelist() if name.endswith("/METADATA")]
    assert "License-Expression: Apache-2.0" in wheel.read(metadata).decode()
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())


# ---- the Debian packages of the tests ------------------------------------------------------------


def debian_packages() -> dict[str, str]:
    """Return the packages that set-up installs for the tests, with the reason for each."""
    lines = ROOT.joinpath("tools/debian-packages.txt").read_text().splitlines()
    pairs = [line.partition("#") for line in lines if line.partition("#")[0].strip()]
    return {name.strip(): reason.strip() for name, _, reason in pairs}


def required_packages(source: str) -> list[str]:
    """Return the packages that a test asks for with `require_tool(name, package)`."""
    return [
        node.args[1].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in {"require_tool", "find_tool"}
        and len(node.args) == 2
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
    ]


def test_set_up_installs_every_package_that_a_test_requires() -> None:
    known = debian_packages()
    assert known
    missing = [
        f"{path.relative_to(ROOT)} requires {package}"
        for path in sorted(ROOT.joinpath("tests").rglob("*.py"))
        for package in required_packages(path.read_text())
        if package not in known
    ]
    assert missing == []


def test_every_debian_package_has_a_reason() -> None:
    assert [name for name, reason in debian_packages().items() if not reason] == []


def test_required_packages_are_found_in_a_source() -> None:
    source = 'def test_it(require_tool):\n    require_tool("podman", "podman")\n'
    assert required_packages(source) == ["podman"]
