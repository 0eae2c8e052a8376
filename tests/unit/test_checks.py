"""What the make targets run: `tools/checks.py`, and the Makefile that calls it."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest

from tests import fast_loop, sizes
from tools import checks, slow_tests

ROOT = Path(__file__).parents[2]
MAKEFILE = ROOT.joinpath("Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z]+):$", MAKEFILE, re.MULTILINE))


def command_of(steps: list[checks.Step], name: str) -> list[str]:
    [step] = [each for each in steps if each.name == name]
    return list(step.command)


def test_every_target_is_phony_explained_and_in_the_table_of_development() -> None:
    [phony] = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert set(phony.split()) == TARGETS
    assert set(re.findall(r"@echo 'make ([a-z]+) ", MAKEFILE)) == TARGETS - {"help"}
    rows = re.findall(
        r"^\| `make ([a-z]+)` \|", ROOT.joinpath("docs/development.md").read_text(), re.MULTILINE
    )
    assert set(rows) == TARGETS - {"help"}


def test_the_makefile_asks_for_kinds_that_there_are() -> None:
    asked = re.findall(r"tools/checks\.py ([a-z]+)", MAKEFILE)
    assert sorted(asked) == sorted(checks.TIME_LIMIT_S)


def test_the_fast_loop_simulates_but_plants_no_defects_and_makes_no_chaos() -> None:
    command = command_of(checks.steps_of("check"), "simulation")
    assert command[-1] == "tests/sim"
    left_out = {each.removeprefix("--ignore=") for each in command if each.startswith("--ignore=")}
    assert left_out == {"tests/sim/test_chaos.py", "tests/sim/test_mutants.py"}
    assert all(ROOT.joinpath(each).is_file() for each in left_out)
    assert ROOT.joinpath("tests/sim/test_seeds.py").is_file()


def test_the_fast_loop_leaves_out_slow_tests_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick = next(each for each in checks.steps_of("check") if "unit" in each.name)
    assert f"{fast_loop.VARIABLE}=1" in quick.command
    slow = fast_loop.slow_tests()
    for each in sorted(slow):
        file, name, *_ = each.split("::")
        assert re.search(rf"\b{name}\b", (ROOT / file).read_text()), each
    known = min(slow)
    names = [known, f"{known}[x]", "tests/unit/test_checks.py::test_no_such"]
    monkeypatch.setenv(fast_loop.VARIABLE, "1")
    assert fast_loop.left_out(names) == {known, f"{known}[x]"}
    monkeypatch.delenv(fast_loop.VARIABLE)
    assert fast_loop.left_out(names) == frozenset()


def test_what_takes_long_is_slow_and_rules_may_take_longer() -> None:
    report = [
        "= slowest durations =",
        "0.20s call     tests/unit/test_x.py::test_often[a]",
        "0.15s setup    tests/unit/test_x.py::test_often[b]",
        "0.30s call     tests/unit/test_x.py::test_once",
        "7.99s call     tests/unit/test_tidy.py::test_rule",
        "8.01s call     tests/unit/test_tidy.py::test_long_rule",
        "99.0s call     tests/sim/test_seeds.py::test_seed[7]",
        "9 passed in 12.00s",
    ]
    assert slow_tests.slow_in(report) == [
        "tests/unit/test_tidy.py::test_long_rule",
        "tests/unit/test_x.py::test_often",
    ]
    assert all((ROOT / each).is_file() for each in (*slow_tests.RULES, slow_tests.SIMULATION))
    assert not any(each.startswith(slow_tests.SIMULATION) for each in fast_loop.slow_tests())


def test_everything_is_tested_in_the_end() -> None:
    alone = command_of(checks.steps_of("test"), "tests that run alone")
    others = command_of(checks.steps_of("test"), "all other tests")
    assert others[-2:] == ["not alone", "tests"]
    assert not any("ignore" in each for each in (*alone, *others))
    files = ROOT.joinpath("tests").rglob("test_*.py")
    marked = [each for each in files if re.search(r"mark\s*\.\s*alone", each.read_text())]
    given = alone[alone.index("alone") + 1 :]
    assert given == sorted(str(each.relative_to(ROOT)) for each in marked) != []


def test_what_python_compiles_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    code = "import sys; sys.exit(sys.dont_write_bytecode)"
    step = checks.Step(name="python", command=(sys.executable, "-c", code))
    assert checks.run_twice(step, time.monotonic() + 60).passed


def test_the_simulation_runs_as_many_seeds_as_asked_and_then_chaos() -> None:
    simulation, chaos = checks.steps_of_sim(20_000, 3)
    assert simulation.command == (
        sys.executable,
        "-m",
        "tests.sim.run",
        "--seeds=20000",
        "--jobs=3",
    )
    assert chaos.command[:3] == ("env", "LONGSHORE_CHAOS_SEEDS=1000", sys.executable)
    assert chaos.command[-2:] == ("-n3", "tests/sim/test_chaos.py")
    assert "LONGSHORE_CHAOS_SEEDS" in ROOT.joinpath("tests/sim/test_chaos.py").read_text()


@pytest.mark.parametrize("bad", [["--seeds", "0"], ["--seeds", "many"], ["--jobs", "-1"]])
def test_a_number_that_makes_no_sense_is_refused(
    bad: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        checks.main(["sim", *bad])
    assert caught.value.code == 2
    assert bad[0] in capsys.readouterr().err


FLAKY = """
import pathlib, sys
def test_steady(): pass
def test_moody():
    mark = pathlib.Path(__file__).with_name("mark")
    tried = mark.exists()
    mark.touch()
    assert tried or {steady}
def test_grim(): assert {grim}
"""


@pytest.mark.parametrize(
    ("steady", "grim", "passed", "unsteady"),
    [(True, True, True, False), (False, True, True, True), (False, False, False, False)],
)
def test_what_fails_beside_others_is_run_once_more_and_called_unsteady(
    steady: bool, grim: bool, passed: bool, unsteady: bool, tmp_path: Path
) -> None:
    tmp_path.joinpath("test_it.py").write_text(FLAKY.format(steady=steady, grim=grim))
    memory = ("-o", f"cache_dir={tmp_path}/memory", "-o", "addopts=")
    command = (sys.executable, "-m", "pytest", *memory, str(tmp_path))
    step = checks.Step(name="tests", command=command, again=(*command, "--last-failed"))
    result = checks.run_twice(step, time.monotonic() + 60)
    assert (result.passed, result.unsteady) == (passed, unsteady)
    assert result.failures == (not steady) + (not grim)


def test_many_failures_are_no_moods(tmp_path: Path) -> None:
    tests = "".join(f"def test_{n}(): assert 0\n" for n in range(checks.MOST_TRIED_AGAIN + 1))
    tmp_path.joinpath("test_it.py").write_text(tests)
    command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path))
    touched = tmp_path / "touched"
    step = checks.Step(name="tests", command=command, again=("touch", str(touched)))
    result = checks.run_twice(step, time.monotonic() + 60)
    assert not result.passed
    assert not touched.exists()


def test_proofs_plant_all_defects() -> None:
    schema, whole, edges = checks.steps_of("proofs")
    assert schema.command[1:] == ("-m", "tests.schema.run")
    assert edges.command == (sys.executable, "-m", "tests.edges.run")
    assert ROOT.joinpath("tests/edges/run.py").is_file()
    assert "LONGSHORE_WHOLE=1" in whole.command
    files = [each for each in ROOT.joinpath("tests").rglob("test_*.py") if is_sized(each)]
    assert {str(each.relative_to(ROOT)) for each in files} <= set(whole.command)
    assert {ROOT / "tests/sim/test_mutants.py", ROOT / "tests/sim/test_seeds.py"} <= set(files)
    assert 0 < whole.needs_s + edges.needs_s + schema.needs_s < 1500


def is_sized(file: Path) -> bool:
    return re.search(r"tests\.sizes\s+import", file.read_text("utf-8")) is not None


def test_a_part_is_made_whole_by_the_variable_of_the_proofs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(sizes.VARIABLE, raising=False)
    assert sizes.sized(1, 2) == 1
    monkeypatch.setenv(sizes.VARIABLE, "1")
    assert sizes.sized(1, 2) == 2


@pytest.mark.parametrize(("left_s", "begins"), [(50.0, False), (1000.0, True)])
def test_what_would_not_end_in_time_is_left_out_and_said_so(
    left_s: float, begins: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    touched = tmp_path / "touched"
    step = checks.Step(name="long one", command=("touch", str(touched)), needs_s=100.0)
    result = checks.run_twice(step, time.monotonic() + left_s)
    assert (result.passed, result.left_out, touched.exists()) == (True, not begins, begins)
    checks.print_summary("proofs", [result])
    assert ("this was LEFT OUT: long one" in capsys.readouterr().out) is not begins


def test_ci_proves_within_what_the_tests_leave_of_75_minutes() -> None:
    script = ROOT.joinpath(".ci/run").read_text()
    assert script.index("make test") < script.index("make proofs WITHIN_S=")
    assert "readonly ALL_S=4500\n" in script
    assert "--within-s $(WITHIN_S)" in MAKEFILE
