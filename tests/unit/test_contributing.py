"""The walks through three changes in CONTRIBUTING.md name every file that such a change touches."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
STEP = re.compile(r"^\d+\. `([\w./-]+)`[:.]", re.MULTILINE)
PRODUCT = ("dispatcher", "pool", "drivers")

FIELD = "A container field that influences placement"
DRIVER = "A driver"
TIMEOUT = "A pool timeout"


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


def product_files_with(pattern: str) -> set[str]:
    """Return the files of the product, and its example configuration, in which a pattern is."""
    paths = [path for top in PRODUCT for path in ROOT.joinpath(top).rglob("*.py")]
    paths.append(ROOT / "config.example.yml")
    return {str(p.relative_to(ROOT)) for p in paths if re.search(pattern, p.read_text())}


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
    assert f"{len(timeout)} files" in walk(TIMEOUT)
    assert len(timeout) <= 9


@pytest.mark.parametrize(
    ("title", "example"),
    [(FIELD, r"\bmax_price(_usd)?_per_hour\b"), (TIMEOUT, r"\bidle_timeout_s\b")],
)
def test_the_example_of_a_walk_is_in_no_file_that_it_does_not_name(
    title: str, example: str
) -> None:
    found = product_files_with(example)
    assert len(found) > 3
    assert sorted(found - set(steps(title))) == []
