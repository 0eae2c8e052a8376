"""One word means one thing: the glossary is short and used, and public names do not clash."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools import house

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs/glossary.md"
ENTRY = re.compile(r"^\| \*\*(.+?)\*\* \| (.+) \|$", re.MULTILINE)
MOST_WORDS = 60

# Words that were coined here, where the field has others for the same; they are not to come back.
COINED = frozenset(
    {
        "basket",
        "buyer",
        "deed",
        "desk",
        "holdback",
        "holder",
        "hurdle",
        "intake",
        "mix",
        "outflow",
        "placer",
        "purse",
        "roster",
        "seat",
        "sharer",
        "stillborn",
        "tenant",
    }
)
# Names with a coined word in them that stay, each with its reason.
STILL_COINED = {
    "pool.runner.holders": "not whose spending has limits, but processes with a pipe of a job open",
}

# Names of functions, attributes, parameters and variables that were coined here, and that say
# nothing to whoever has not been told. Ordinary words among them (`kept`, `missing`, `turn`) are
# fine for other things, so they are not here.
COINED_NAMES = frozenset(
    {
        "came_and_went",
        "condemn",
        "deed",
        "doom",
        "floor",
        "has_own_placer",
        "hindrance",
        "hope",
        "hoped",
        "hoped_for",
        "hurdle",
        "kinds_arrive",
        "left_of",
        "line_up",
        "mix",
        "moved_on_at",
        "outlook",
        "placers_due",
        "purse",
        "seat",
        "sharer",
        "sits_again",
        "staying_sharer",
        "steer",
        "stillborn",
        "stillborn_since",
        "stillborn_until",
        "stillborn_why",
        "strike",
        "take_deed",
        "taken_of",
        "tenant",
        "tenants_on",
        "unpaid",
    }
)
STILL_NAMED = {
    "pool/runner/backlog.py: floor": "the mathematical one: down to a whole step of a file",
}

# What the folders are called to whoever reads them: the last word of a class or module name.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]*|[a-z]+")


def entries() -> list[tuple[str, str]]:
    return ENTRY.findall(GLOSSARY.read_text())


def uses(word: str) -> re.Pattern[str]:
    """Return what finds a word in prose and in code: store stall, store_stall, StoreStall."""
    parts = re.split(r"[ -]", word)
    return re.compile(r"(?<![a-z])" + r"[ _\n-]?".join(map(re.escape, parts)), re.IGNORECASE)


def coined_in(names: Iterable[str]) -> Iterator[str]:
    """Yield those of dotted module and class names in whose last part a coined word is."""
    for name in names:
        words = {each.lower() for each in WORD.findall(name.rpartition(".")[2])}
        if COINED & (words | {each.removesuffix("s") for each in words}):
            yield name


def defined_in(tree: ast.AST) -> Iterator[str]:
    """Yield the names of functions, parameters, attributes and variables that are defined."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.MatchAs(name=str(name)):
                yield name


def coined_definitions(text: str) -> set[str]:
    """Return the coined names that a module's text defines, private or in the plural too."""
    names = {name.lower().strip("_") for name in defined_in(ast.parse(text))}
    return set(COINED_NAMES & (names | {name.removesuffix("s") for name in names}))


def public_names() -> list[str]:
    tree = house.modules(ROOT)
    classes = [f"{each.name}.{name}" for each in tree.values() for name in each.classes]
    return [*tree, *classes]


def test_the_glossary_is_short_and_sorted() -> None:
    words = [word for word, _ in entries()]
    assert 40 < len(words) <= MOST_WORDS
    assert words == sorted(words)
    assert len(words) == len(set(words))
    rows = [line for line in GLOSSARY.read_text().splitlines() if line.startswith("| **")]
    assert len(rows) == len(words)


def test_an_entry_is_one_sentence() -> None:
    wrong = [word for word, meaning in entries() if re.search(r"\. |\.$", meaning)]
    assert wrong == []


def test_each_entry_is_used() -> None:
    pages = [path for path in ROOT.glob("docs/**/*.md") if path != GLOSSARY]
    code = [path for top in house.TOP for path in ROOT.joinpath(top).rglob("*.py")]
    text = "\n".join(path.read_text() for path in (*pages, *code))
    assert [word for word, _ in entries() if not uses(word).search(text)] == []


def test_a_word_that_nobody_uses_is_found() -> None:
    assert uses("store stall").search("class StoreStalled:")
    assert uses("store stall").search("import store_stall")
    assert uses("scale-up").search("scale_up")
    assert not uses("gate").search("propagate")


def test_no_public_name_is_defined_in_two_modules() -> None:
    assert house.names_defined_twice(house.modules(ROOT)) == {}


def test_no_class_or_module_has_a_coined_word() -> None:
    found = set(coined_in(public_names()))
    assert sorted(found - STILL_COINED.keys()) == []
    assert sorted(STILL_COINED.keys() - found) == []


def test_a_coined_word_is_found() -> None:
    names = ["a.desk", "a.JobDesk", "a.Placers", "a.holdbacks", "a.Deed", "a.mix_exact"]
    assert list(coined_in(names)) == names
    assert list(coined_in(["a.desk.Fine", "a.Mixed", "a.Indeed", "a.MixinType"])) == []


def test_no_definition_has_a_coined_name() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for top in (*house.TOP, "benchmarks", "tests")
        for path in ROOT.joinpath(top).rglob("*.py")
        for name in coined_definitions(path.read_text())
    }
    assert sorted(found - STILL_NAMED.keys()) == []
    assert sorted(STILL_NAMED.keys() - found) == []


def test_a_coined_name_is_found_wherever_it_is_defined() -> None:
    for text in (
        "def steer(): ...",
        "async def _steer(): ...",
        "def go(*, steer=1): ...",
        "go = lambda steer: 1",
        "class A:\n    steers: int = 0",
        "self._steer = 1",
        "for steer in (): ...",
        "match go:\n    case int() as steer: ...",
        "STEER = 1",
    ):
        assert coined_definitions(text) == {"steer"}, text
    assert coined_definitions("steer()\na.steer()\ngo(steer=1)\noversteer = 1") == set()
