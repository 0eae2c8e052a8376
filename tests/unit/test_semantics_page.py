"""The page that says which test shows which rule names tests that exist, for every rule."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "semantics.md"


def rows() -> list[tuple[str, list[str]]]:
    """Return the rules of the page with the names of their tests."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [line.strip("| ").split(" | ") for line in lines]
    return [(rule, re.findall(r"`(\w+)`", tests)) for rule, tests in cells if rule != "rule"]


def test_every_test_of_the_page_exists_once() -> None:
    sources = "\n".join(each.read_text() for each in sorted(ROOT.glob("tests/**/test_*.py")))
    defined = re.findall(r"^def (test_\w+)", sources, re.MULTILINE)
    defined += re.findall(r"^async def (test_\w+)", sources, re.MULTILINE)
    named = [name for _, names in rows() for name in names]
    assert [name for name in named if defined.count(name) != 1] == []


def test_every_rule_of_the_page_has_a_test_and_stands_there_once() -> None:
    rules = [rule for rule, _ in rows()]
    assert len(rules) >= 120
    assert sorted(set(rules)) == sorted(rules)
    assert [rule for rule, names in rows() if not names] == []
