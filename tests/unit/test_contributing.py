"""The walks through three changes in CONTRIBUTING.md name every file that such a change touches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
STEP = re.compile(r"^\d+\. `([\w./-]+)`[:.]", re.MULTILINE)
PRODUCT = ("dispatcher", "pool", "drivers")

SEARCHED = (*PRODUCT, "tests", "tools", "benchmarks", "docs", "examples")
KINDS = frozenset({".py", ".md", ".yml", ".yaml", ".toml", ".json"})
RELIABILITY = "docs/reliability.md"
# Tests and benchmarks set an option to have it out of their way.
SETS = re.compile(r"""idle_timeout_s(=|"?: | = )""")

FIELD = "A container field that influences placement"
DRIVER = "A driver"
TIMEOUT = "A pool timeout"

EXAMPLES = {
    FIELD: r"\bmax_price(_usd)?_per_hour\b",
    DRIVER: r"(?i)\blibcloud\b",
    TIMEOUT: r"\bidle_timeout",
}
# Those who use the example, and would not have to learn of another such thing.
MERE_USERS = {
    FIELD: {
        "dispatcher/domain/policies.py": "a rule of policies is of it, as others are of others",
        "tests/unit/test_policies.py": "the same",
        "tests/unit/test_planner.py": "demands a price, for something else to be so",
        "tests/unit/test_planner_edge_cases.py": "the same",
        "tests/unit/test_preemptible.py": "the same",
        "tests/unit/test_store_failures.py": "a row as an older version wrote it",
    },
    DRIVER: {
        "docs/decisions/README.md": "lists a decision on it",
        "docs/limits.md": "has a limit of its own",
        "docs/operations.md": "of its errors, beside those of EC2",
        "tests/local_clouds.py": "two of its clouds, for tests",
        "tests/unit/test_tidy.py": "plants an import of it",
    },
    TIMEOUT: {
        "docs/decisions/040-time-limits.md": "how those of that time differ",
        "docs/operations.md": "in a sentence on leaks, and in lines of a log",
        "tests/e2e/test_bad_input.py": "a setting that is wrong",
        "tests/e2e/test_leaks.py": "a reason that is shown",
        "tests/unit/test_cli_config.py": "a setting that is wrong",
        "tests/unit/test_config.py": "the same",
        "tests/unit/test_log_problem.py": "a reason that is shown",
        "tests/unit/test_residents.py": "the same",
        "tests/unit/test_validation.py": "a setting that is wrong",
        "tools/soak.py": "in a sentence",
    },
}


def walk(title: str) -> str:
    """Return the text of one walk."""
    return (
        PAGE.read_text()
        .partition(f"\n### {title}\n")[2]
        .partition("\n## ")[0]
        .partition("\n### ")[0]
    )


def steps(title: str) -> list[str]:
    """Return the files of one walk, in order."""
    return STEP.findall(walk(title))


def below_the_top(files: list[str]) -> set[str]:
    """Return the folders of those files that are in one: a layer with all below it is one."""
    return {"/".join(Path(each).parent.parts[:2]) for each in files} - {""}


def files() -> list[str]:
    """Return the files in which a change may have to be made: code, tests, pages, settings."""
    found = [path for top in SEARCHED for path in ROOT.joinpath(top).rglob("*.*")]
    found += [ROOT / name for name in ("README.md", "config.example.yml", "pyproject.toml")]
    names = (path.relative_to(ROOT).as_posix() for path in found if path.suffix in KINDS)
    return sorted(name for name in names if name != "tests/unit/test_contributing.py")


def files_with(pattern: str) -> set[str]:
    """Return the files in which a pattern is, on a line that does more than set an option."""
    found = set()
    for name in files():
        lines = ROOT.joinpath(name).read_text().splitlines()
        if not name.startswith(PRODUCT) and name != "config.example.yml":
            lines = [line for line in lines if not SETS.search(line)]
        if any(re.search(pattern, line) for line in lines):
            found.add(name)
    return found


@pytest.mark.parametrize("title", [FIELD, DRIVER, TIMEOUT])
def test_a_walk_names_files_that_are_there_each_once(title: str) -> None:
    files = steps(title)
    assert len(files) == len(re.findall(r"^\d+\. ", walk(title), re.MULTILINE)) > 5
    assert [each for each in files if not ROOT.joinpath(each).is_file()] == []
    assert len(files) == len(set(files))


def test_the_walks_are_as_short_as_they_say() -> None:
    field, driver, timeout = steps(FIELD), steps(DRIVER), steps(TIMEOUT)
    in_folders = [each for each in field if "/" in each]
    assert f"{len(in_folders)} files in {len(below_the_top(field))} folders" in walk(FIELD)
    assert len(field) <= 19
    assert len(below_the_top(field)) <= 6
    assert f"{len(driver)} files" in walk(DRIVER)
    # The aim is 9: without those of a guard it holds, with them it does not, and the walk says so.
    of_guards = [each for each in timeout if each.startswith("tests/sim/")] + [RELIABILITY]
    assert timeout[-len(of_guards) :] == of_guards
    others = len(timeout) - len(of_guards)
    assert f"{others} files, and {len(of_guards)} more" in walk(TIMEOUT)
    assert others <= 9
    assert len(timeout) <= 14


@pytest.mark.parametrize("title", [FIELD, DRIVER, TIMEOUT])
def test_the_example_of_a_walk_is_in_no_file_that_it_does_not_name(title: str) -> None:
    found = files_with(EXAMPLES[title])
    if title == DRIVER:
        found = {each for each in found if "libcloud" not in each}
    mere = set(MERE_USERS[title])
    assert len(found) > 3
    assert sorted(found - set(steps(title)) - mere) == []
    # Who uses it no more, or is a step, is not to be excused.
    assert sorted(mere - (found - set(steps(title)))) == []
