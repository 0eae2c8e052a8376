"""Docstrings and documents name only what there is: words of the code, modules, members."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools import house

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(p for top in house.TOP for p in ROOT.joinpath(top).rglob("*.py"))
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
CODE = re.compile(r"`([^`\n]+)`")
WORD = re.compile(r"^(?:\w+\.)*(_?\w*(?:[a-z0-9]_[a-z0-9]|[a-z][A-Z]|[A-Z]_[A-Z])\w*)(?:\(\))?$")
MEMBER = re.compile(r"^(_?[A-Z]\w*)\.(\w+)(?:\(\))?$")
DOTTED = re.compile(r"^(?:longshore\.)?([a-z_]\w*(?:\.[a-z_]\w*)+)(?<!\.py)(?<!\.yml)$")

NOT_OURS = {
    "Client.InternalError": "a code of EC2's",
    "LONGSHORE_PARAMETER_NAME": "NAME is the reader's",
    "RemoveIPC": "a setting of systemd's",
    "images.arm64": "a parameter of EC2's, by architecture",
    "exitCodes": "a wrong spelling that is told",
    "longshore_planning_passes_total": "a metric, to whose name Prometheus adds",
    "process_cpu_seconds_total": "a metric of Prometheus' own",
    "sideband.allowControlCharacters": "a setting of git's",
}
"""What looks like a name of ours and is none, with what it is."""


@cache
def trees() -> dict[str, ast.Module]:
    """Return the product's modules, parsed, by their dotted names."""
    return {house._name(p.relative_to(ROOT)): ast.parse(p.read_text()) for p in SOURCES}


@pytest.fixture(scope="module", autouse=True)
def _forgotten() -> Iterator[None]:
    """Let go of the trees: whatever collects garbage later would walk through all of them."""
    yield
    trees.cache_clear()


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings of a module, and what stands below a constant or a field."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else []:
            match each:
                case ast.Expr(value=ast.Constant(value=str()) as constant):
                    yield constant


@cache
def told() -> dict[str, set[str]]:
    """Return what stands in backquotes in docstrings and comments at fields, and where."""
    found: dict[str, set[str]] = {}
    for module, tree in trees().items():
        for each in docstrings(tree):
            for code in CODE.findall(str(each.value)):
                found.setdefault(code, set()).add(module)
    for path in SOURCES:
        for comment in re.findall(r"#.*", path.read_text()):
            for code in CODE.findall(comment):
                found.setdefault(code, set()).add(house._name(path.relative_to(ROOT)))
    for path in PAGES:
        for code in CODE.findall(path.read_text()):
            found.setdefault(code, set()).add(path.name)
    return found


def told_of_folders() -> Iterator[tuple[str, str]]:
    """Yield each folder, with the plain words in backquotes in what it says of itself."""
    for path in SOURCES:
        if path.name == "__init__.py" and path.parent.name != "versions":
            for code in CODE.findall(ast.get_docstring(ast.parse(path.read_text())) or ""):
                if re.fullmatch(r"[a-z_]\w*/?", code):
                    yield path.parent.relative_to(ROOT).as_posix(), code.removesuffix("/")


@cache
def words() -> frozenset[str]:
    """Return the words of the code, in which docstrings and comments are not."""
    found: set[str] = set()
    others = {*ROOT.glob("tests/**/*.py"), *ROOT.glob("tools/**/*.py")} - {Path(__file__).resolve()}
    for path in [*SOURCES, *others]:
        tree = ast.parse(path.read_text())
        skipped = {id(each) for each in docstrings(tree)}
        found |= {path.stem, path.parent.name}
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            for name in ("id", "attr", "name", "arg", "module", "value", "asname"):
                value = getattr(node, name, None)
                if isinstance(value, str):
                    found.update(re.findall(r"\w+", value))
    for path in (ROOT / "pyproject.toml", ROOT / "config.example.yml"):
        found.update(re.findall(r"\w+", path.read_text()))
    return frozenset(found)


@cache
def members() -> dict[str, set[str]]:
    """Return what the classes of each name have, with what they inherit from ours."""
    own: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                own.setdefault(node.name, set()).update(_declared(node))
                bases.setdefault(node.name, set()).update(map(ast.unparse, node.bases))

    def all_of(name: str, seen: frozenset[str]) -> set[str]:
        above = (all_of(b, seen | {name}) for b in bases.get(name, set()) - seen)
        return own.get(name, set()).union(*above)

    return {name: all_of(name, frozenset({name})) for name in own}


def _declared(node: ast.ClassDef) -> Iterator[str]:
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


@cache
def defined() -> dict[str, set[str]]:
    """Return the names at the top of each module."""
    found = {}
    for module, tree in trees().items():
        names = {getattr(node, "name", "") for node in tree.body}
        names |= {n.id for node in tree.body for n in ast.walk(node) if isinstance(n, ast.Name)}
        found[module] = names
    return found


def is_there(dotted: str) -> bool:
    """Return whether a dotted name may be a module of ours, or a name in one, or not ours."""
    whole = f".{dotted}"
    modules = [f".{name}" for name in trees()]
    if any(name.endswith(whole) for name in modules):
        return True
    inside, _, name = dotted.rpartition(".")
    places = [each[1:] for each in modules if each.endswith(f".{inside}")]
    if any(name in defined()[each] for each in places):
        return True
    # A setting, as `pool.init_command`; else what begins as a module or folder of ours is in it.
    is_field = any(name in each for each in members().values())
    first = dotted.partition(".")[0]
    return is_field or not any(first in each.split(".") for each in trees())


def wrong_in(code: str) -> str:
    """Return what is wrong with what stands in backquotes, "" for nothing."""
    if match := MEMBER.match(code):
        class_, member = match.groups()
        if member not in members().get(class_, {member}):
            return f"{class_} has no {member}"
    elif (match := DOTTED.match(code)) and not is_there(match.group(1)):
        return f"there is no {match.group(1)}"
    if (match := WORD.match(code)) and match.group(1) not in words():
        return f"no code says {match.group(1)}"
    return ""


def test_what_is_named_is_there() -> None:
    assert len(told()) > 1000
    wrong = {code: why for code in told() if (why := wrong_in(code))}
    assert {code: told()[code] for code in wrong.keys() - NOT_OURS.keys()} == {}
    assert sorted(NOT_OURS.keys() - wrong.keys()) == []


def test_folders_name_what_is_in_them_or_beside_them() -> None:
    found = list(told_of_folders())
    missing = []
    for folder, name in found:
        places = (ROOT / folder, ROOT / folder / "..", ROOT)
        if not any((at / each).exists() for at in places for each in (name, f"{name}.py")):
            missing.append((folder, name))
    assert len(found) > 40
    assert missing == []


def test_what_is_not_there_is_found() -> None:
    there = ("pool.shutdown", "longshore.pool.core", "absence.end", "Worker.is_ready", "os.environ")
    assert [wrong_in(each) for each in there] == [""] * len(there)
    assert wrong_in("Worker.no_such()") == "Worker has no no_such"
    assert wrong_in("pool.standstill_x") == "there is no pool.standstill_x"
    assert wrong_in("absence.no_end_of") == "there is no absence.no_end_of"
    gone = "no_such_word"
    assert wrong_in(gone) == f"no code says {gone}"
