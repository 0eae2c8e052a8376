"""Writes the tables of `docs/reliability.md`: `python -m tests.sim.reliability`."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from longshore.drivers.simulated.parameters import SimulatedFaults
from tests.sim.faults import Demand, DispatcherFaults, HostFaults
from tests.sim.glossary import FAULTS, PROMISES
from tests.sim.mutants import MUTANTS
from tests.sim.options import SimOptions

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "reliability.md"
MARKED = re.compile(
    r"(<!-- (\w+): made by tests/sim/reliability\.py -->\n).*?(<!-- end -->)", re.DOTALL
)

PARTS: tuple[tuple[str, type], ...] = (
    ("instances and sessions", HostFaults),
    ("the dispatcher and its store", DispatcherFaults),
    ("users and admins", Demand),
    ("the rest", SimOptions),
)
NO_FAULTS = frozenset(
    {
        "seed",
        "safety_s",
        "demand",
        "hosts",
        "dispatcher",
        "cloud",
        "pool",
        "scheduler",
        "pace",
    }
)


def faults() -> dict[str, list[str]]:
    """Return the names of all that can go wrong, by part."""
    named = {"the cloud": list(SimulatedFaults.__struct_fields__)}
    for part, options in PARTS:
        named[part] = [f.name for f in fields(options) if f.name not in NO_FAULTS]
    return named


def promises() -> dict[str, list[str]]:
    """Return the promises that are checked, each with the modules that do."""
    found: dict[str, set[str]] = {}
    for path in sorted(HERE.glob("*.py")):
        for name in _expected(ast.parse(path.read_text())):
            found.setdefault(name, set()).add(path.stem)
    return {name: sorted(found[name]) for name in sorted(found)}


def _expected(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the promises that a module expects; what varies is left out."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id != "expect" or len(node.args) < 2:
            continue
        named = node.args[1]
        first = named.values[0] if isinstance(named, ast.JoinedStr) else named
        if isinstance(first, ast.Constant):
            yield str(first.value).removesuffix(": ")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _promises_table() -> str:
    where = promises()
    rows = [
        (name, PROMISES[name], ", ".join(f"`{module}`" for module in where[name]))
        for name in PROMISES
    ]
    return _table(("promise", "what is looked at", "by"), rows)


def _faults_table() -> str:
    rows = [(part, f"`{name}`", FAULTS[name]) for part, names in faults().items() for name in names]
    return _table(("of", "fault", "what it is"), rows)


def _guards_table() -> str:
    rows = [
        (
            mutant.guard,
            mutant.fault,
            mutant.name,
            f"`{mutant.where.partition(':')[0]}`",
            "seeds" if mutant.test is None else f"`{mutant.test}`",
        )
        for mutant in MUTANTS
    ]
    return _table(("guard", "fault", "defect planted", "in", "caught by"), rows)


def with_tables(page: str) -> str:
    """Return a page with its tables as the code makes them now."""
    tables = {
        "promises": _promises_table(),
        "faults": _faults_table(),
        "guards": _guards_table(),
    }
    return MARKED.sub(lambda match: f"{match[1]}\n{tables[match[2]]}\n{match[3]}", page)


def main() -> int:
    """Write the tables into the page; return the exit status."""
    PAGE.write_text(with_tables(PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
