"""Every sentence that a user, an admin or a reader of the log may see, in one place to review.

    python tools/sentences.py [--of errors|waits|help|log|other] [--words WORD ...] [--json]

It reads the sources, not a run, so that what is seldom said is there as well: each text of two
words or more that is no documentation and no query, with `{…}` where a value goes. What kind a text
is follows from what it is handed to; under one kind they stand by module, in their order.
`--words` shows only texts with one of these words, as a coined one that users should not meet.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("dispatcher", "pool", "drivers")
LEFT_OUT = ("dispatcher/conformance/",)
"""What only the author of a driver reads has sentences of its own kind."""

KINDS = ("errors", "waits", "help", "log", "other")
LOG_CALLS = ("debug", "info", "warning", "error", "exception", "critical")
HELP_KEYS = ("help", "description", "epilog", "metavar", "short_help")
_TWO_WORDS = re.compile(r"[A-Za-z']+[,:;]? +[A-Za-z{(`']")
_QUERY = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|ALTER|WHERE|BEGIN)\b")
_CODE = re.compile(r"^[\s\S]*(\bimport \w|\bdef \w+\(|\n\s*return )")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A text of the product's, where it stands, and what it is for."""

    kind: str
    file: str
    line: int
    text: str


def sentences_of(path: Path, root: Path = ROOT) -> list[Sentence]:
    """Return the sentences of one module in their order."""
    tree = ast.parse(path.read_text("utf-8"))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    file = path.relative_to(root).as_posix()
    found = [
        Sentence(kind=_kind(node, parents), file=file, line=node.lineno, text=text)
        for node, text in _texts(tree, parents)
    ]
    return sorted(found, key=lambda each: each.line)


def all_sentences(root: Path = ROOT) -> list[Sentence]:
    """Return all sentences of the product, by module."""
    modules = sorted(
        path
        for folder in FOLDERS
        for path in (root / folder).rglob("*.py")
        if not path.relative_to(root).as_posix().startswith(LEFT_OUT)
    )
    return [each for path in modules for each in sentences_of(path, root)]


def _texts(tree: ast.AST, parents: dict[ast.AST, ast.AST]) -> Iterator[tuple[ast.expr, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        above = parents.get(node)
        if isinstance(above, ast.JoinedStr | ast.FormattedValue | ast.Expr):
            continue  # a part of a text, or documentation
        text = _text(node)
        if text is not None and _is_sentence(text):
            yield node, text


def _text(node: ast.Constant | ast.JoinedStr) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    parts = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value))
        elif isinstance(value, ast.FormattedValue):
            parts.append("{" + ast.unparse(value.value) + "}")
    return "".join(parts)


def _is_sentence(text: str) -> bool:
    return bool(_TWO_WORDS.search(text) and not _QUERY.search(text) and not _CODE.match(text))


def _kind(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> str:
    """Return what a text is for: what the nearest call, keyword or `raise` above it says."""
    above: ast.AST | None = node
    while above is not None and not isinstance(above, ast.stmt):
        if isinstance(above, ast.keyword) and above.arg in HELP_KEYS:
            return "help"
        if isinstance(above, ast.Call):
            name = _called(above)
            if name in LOG_CALLS:
                return "log"
            if name.endswith(("Option", "option", "argument", "command")):
                return "help"
            if "Wait" in name or "wait" in name:
                return "waits"
            if name.endswith(("Error", "Problem", "problem", "Exception", "Remedy")):
                return "errors"
        above = parents.get(above)
    return "errors" if isinstance(above, ast.Raise) else "other"


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def main(arguments: Sequence[str]) -> int:
    """Print the sentences that are asked for, and how many there are."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--of", choices=KINDS, action="append", help="only these kinds")
    parser.add_argument("--words", nargs="+", default=(), help="only texts with one of these")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    wanted = re.compile(rf"\b({'|'.join(map(re.escape, given.words))})\b", re.IGNORECASE)
    chosen = [
        each
        for each in all_sentences()
        if (not given.of or each.kind in given.of) and (not given.words or wanted.search(each.text))
    ]
    if given.json:
        print(json.dumps([asdict(each) for each in chosen]))
        return 0
    for kind in KINDS:
        file = ""
        for each in (each for each in chosen if each.kind == kind):
            if each.file != file:
                file = each.file
                print(f"\n{kind}: {file}")
            print(f"{each.line:5}  {each.text}")
    print(f"\n{len(chosen)} sentences")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
