"""The records of a worker's load and health change by their own methods alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

POOL = Path(__file__).parents[2] / "pool"
RECORDS = {"load", "health"}
CHANGES = {"add", "discard", "remove", "update", "pop", "popitem", "clear", "setdefault"}


def of_record(node: ast.AST) -> bool:
    """Return whether an expression is a part of such a record, as `worker.load.free` is."""
    match node:
        case ast.Subscript(value=inner):
            return of_record(inner)
        case ast.Attribute(value=ast.Attribute(attr=record)):
            return record in RECORDS
    return False


def changed(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that change a part of such a record."""
    for node in ast.walk(tree):
        match node:
            case (
                ast.Attribute(ctx=ast.Store() | ast.Del())
                | ast.Subscript(ctx=ast.Store() | ast.Del())
            ):
                if of_record(node):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(value=part, attr=name)):
                if name in CHANGES and of_record(part):
                    yield node.lineno


@pytest.mark.parametrize(
    "line",
    [
        "worker.load.free = room",
        "worker.health.refusals += 1",
        "swallowed, worker.health.swallowed = worker.health.swallowed, {}",
        "worker.health.acquitted[user] = now",
        "del core.workers[name].load.attempts[name]",
        "self.worker.load.unreleased.add(name)",
    ],
)
def test_what_changes_a_record_is_found(line: str) -> None:
    assert list(changed(ast.parse(line))) == [1]


def test_records_change_in_one_place() -> None:
    files = sorted(POOL.glob("**/*.py"))
    found = [
        f"{path.relative_to(POOL)}:{line}"
        for path in files
        for line in changed(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
    assert POOL / "model.py" in files
