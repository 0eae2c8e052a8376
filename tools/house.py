"""Measures how a tree of ours is laid out: folders, layers, rings, sizes, and names that clash.

    python tools/house.py [PATH] [--json]

A folder is a directory of `dispatcher/`, `pool/` or `drivers/` that holds modules of its own; its
arrows are the imports of its modules, wherever in them they stand. A ring is a set of folders of
which each imports each other, directly or not. Layers are the longest chain of folders in which
each imports the next; a ring counts as one of them, since nobody in it is above another. An arrow
goes up when it breaks the order of the tree's own import-linter contracts. A name is defined twice
if two modules have a public class of that name; or a function, and both are imported by name. A
function that is always called as `module.name` may share its name by design: `probing.release` and
`shutdown.release` are two words. Methods belong to their class, and constants are not counted. Only
text is read, so that an older checkout, whose modules import `dispatcher` where today's import
`longshore.dispatcher`, is measured in the same way; migrations are none of it.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

TOP = ("dispatcher", "pool", "drivers")
MAX_IMPORTS = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One module of the tree, and what it says."""

    #: Dotted, from the folder at the top on: `pool.remote.link`.
    name: str
    #: Relative to the tree: `pool/remote`.
    folder: str
    lines: int
    docstring: str
    #: Names of our modules that it imports.
    imports: frozenset[str]
    #: Classes at its top level whose names do not begin with `_`.
    classes: tuple[str, ...]
    #: Functions at its top level, likewise.
    functions: tuple[str, ...]
    #: What it imports by name, as dotted names: `pool.remote.link.Link`.
    named: frozenset[str]
    #: Whether it is an `__init__.py`, which only says what a folder is.
    is_package: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What a tree amounts to."""

    folders: int
    layers: int
    rings: list[list[str]]
    folders_in_rings: int
    arrows_up: list[str]
    modules: int
    lines: int
    mean_imports: float
    importing_too_many: dict[str, int]
    names_defined_twice: dict[str, list[str]]


def own_name(dotted: str) -> str:
    """Return a module's name without the `longshore.` that older trees do not have."""
    return dotted.removeprefix("longshore.")


def modules(root: Path) -> dict[str, Module]:
    """Return the modules of the tree at `root` by name."""
    found = [
        path
        for top in TOP
        for path in sorted(root.joinpath(top).rglob("*.py"))
        if "versions" not in path.parts
    ]
    paths = {_name(path.relative_to(root)): path for path in found}
    return {name: _module(root, name, path, paths) for name, path in paths.items()}


def _name(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _module(root: Path, name: str, path: Path, known: Mapping[str, Path]) -> Module:
    source = path.read_text()
    tree = ast.parse(source)
    public = [each for each in tree.body if not getattr(each, "name", "_").startswith("_")]
    imported = frozenset(_imported(tree))
    return Module(
        name=name,
        folder=path.relative_to(root).parent.as_posix(),
        lines=len(source.splitlines()),
        docstring=ast.get_docstring(tree) or "",
        imports=frozenset(each for each in imported if each in known) - {name},
        classes=tuple(each.name for each in public if isinstance(each, ast.ClassDef)),
        functions=tuple(
            each.name for each in public if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        named=imported - known.keys(),
        is_package=path.name == "__init__.py",
    )


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield what may be a module of ours among all that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (own_name(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield own_name(node.module)
            # `from a.b import c` may mean the module a.b.c.
            yield from (own_name(f"{node.module}.{alias.name}") for alias in node.names)


def arrows(tree: Mapping[str, Module]) -> dict[str, set[str]]:
    """Return which folders each folder imports, itself excepted."""
    found: dict[str, set[str]] = {each.folder: set() for each in code(tree)}
    for each in code(tree):
        found[each.folder] |= {tree[name].folder for name in each.imports} & found.keys()
    return {folder: below - {folder} for folder, below in found.items()}


def code(tree: Mapping[str, Module]) -> list[Module]:
    """Return the modules that hold code, which an `__init__.py` does not."""
    return [each for each in tree.values() if not each.is_package]


def reachable(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return what each node of a graph leads to, directly or not."""
    found = {}
    for start in graph:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph[waiting.pop()] - seen
            seen |= new
            waiting += new
        found[start] = seen
    return found


def rings(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the sets of folders that import each other, sorted."""
    far = reachable(graph)
    together = {frozenset({a, *(b for b in far[a] if a in far[b])}) for a in graph if a in far[a]}
    return sorted(sorted(each) for each in together)


def layers(graph: Mapping[str, set[str]]) -> int:
    """Return how many folders the longest chain has, with each ring as one."""
    far = reachable(graph)
    depth: dict[str, int] = {}
    # Who leads to less comes first, so that what is below a node is known when its turn comes.
    for node in sorted(graph, key=lambda each: len(far[each])):
        ring = {node, *(b for b in far[node] if node in far[b])}
        below = {b for member in ring for b in graph[member]} - ring
        depth[node] = 1 + max((depth[each] for each in below), default=0)
    return max(depth.values(), default=0)


def contracts(root: Path) -> list[list[list[str]]]:
    """Return the order of each layers contract, from the top: the names of each of its lines."""
    text = root.joinpath("pyproject.toml").read_text()
    found = []
    for each in tomllib.loads(text)["tool"]["importlinter"]["contracts"]:
        if each["type"] != "layers":
            continue
        for container in each.get("containers", [""]):
            prefix = f"{own_name(container)}." if container else ""
            lines = [line.replace(":", "|").split("|") for line in each["layers"]]
            # In parentheses are those that there need not be.
            names = [[name.strip(" ()") for name in line] for line in lines]
            found.append([[prefix + own_name(name) for name in line] for line in names])
    return found


def going_up(tree: Mapping[str, Module], order: list[list[str]]) -> set[str]:
    """Return the imports that go from a line of a contract to one above it."""
    ranks = {name: rank for rank, line in enumerate(order) for name in line}

    def rank(module: str) -> int | None:
        parts = module.split(".")
        names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((ranks[name] for name in names if name in ranks), None)

    found = set()
    for each in tree.values():
        mine = rank(each.name)
        for name in each.imports:
            other = rank(name)
            if mine is not None and other is not None and other < mine:
                found.add(f"{each.name} -> {name}")
    return found


def names_defined_twice(tree: Mapping[str, Module]) -> dict[str, list[str]]:
    """Return the public names that several modules define, with these modules; see the top."""
    by_name = {name for each in tree.values() for name in each.named}
    where: dict[str, list[str]] = {}
    for each in tree.values():
        functions = (name for name in each.functions if f"{each.name}.{name}" in by_name)
        for name in (*each.classes, *functions):
            where.setdefault(name, []).append(each.name)
    return {name: found for name, found in sorted(where.items()) if len(found) > 1}


def importers(tree: Mapping[str, Module]) -> Counter[str]:
    """Return how many modules import each."""
    return Counter(name for each in tree.values() for name in each.imports)


def own_imports(module: Module, tree: Mapping[str, Module]) -> int:
    """Return how many modules of ours one imports; a folder's docstring is none of them."""
    return sum(not tree[name].is_package for name in module.imports)


def measure(root: Path) -> Measures:
    """Return what the tree at `root` amounts to."""
    tree = modules(root)
    graph = arrows(tree)
    counts = {each.name: own_imports(each, tree) for each in code(tree)}
    up = {arrow for order in contracts(root) for arrow in going_up(tree, order)}
    too_many = sorted((-n, name) for name, n in counts.items() if n > MAX_IMPORTS)
    return Measures(
        folders=len(graph),
        layers=layers(graph),
        rings=rings(graph),
        folders_in_rings=sum(len(each) for each in rings(graph)),
        arrows_up=sorted(up),
        modules=len(counts),
        lines=sum(each.lines for each in code(tree)),
        mean_imports=round(sum(counts.values()) / max(len(counts), 1), 2),
        importing_too_many={name: -n for n, name in too_many},
        names_defined_twice=names_defined_twice(tree),
    )


def table(found: Measures) -> Iterator[str]:
    """Yield the lines that a person reads."""
    values: dict[str, Any] = asdict(found)
    for name, value in values.items():
        number = value if isinstance(value, int | float) else len(value)
        yield f"{name.replace('_', ' '):<22}{number:>8}"
    details = (*(" ".join(ring) for ring in found.rings), *found.arrows_up)
    yield from (f"  {each}" for each in details)
    yield from (f"  {name} imports {n}" for name, n in found.importing_too_many.items())
    for name, where in found.names_defined_twice.items():
        yield f"  {name} is defined in {', '.join(where)}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how a tree of ours is laid out.")
    here = Path(__file__).resolve().parents[1]
    parser.add_argument("path", nargs="?", type=Path, default=here, help="a checkout of ours")
    parser.add_argument("--json", action="store_true", help="write one JSON object")
    options = parser.parse_args()
    if not options.path.joinpath("pyproject.toml").is_file():
        sys.exit(f"{options.path} has no pyproject.toml: give the top of a checkout")
    found = measure(options.path)
    print(json.dumps(asdict(found), indent=1) if options.json else "\n".join(table(found)))


if __name__ == "__main__":
    main()
