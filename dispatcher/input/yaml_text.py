"""YAML as people write it by hand, for job files and the configuration.

PyYAML parses, but speaks YAML 1.1, whose scalars surprise: `0100` is 64, `12:30` is 750, `no` is
false, `=` is no value at all. Here the core schema of YAML 1.2.2 (§10.3) holds: whole numbers are
decimal, `0o` or `0x`; only true and false are booleans; dates are text. Merge keys (`<<`) work as
in 1.1, since people use them. A key that stands twice in one mapping is a problem, where PyYAML
takes the last, and so are aliases that stand for more than anybody writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml

#: What aliases may add to what is written: the rest is a bomb, not a file.
MAX_ALIASED_NODES = 1_000_000
#: Digits of a number: as many as the largest that anything here takes, and some to spare.
MAX_NUMBER_CHARACTERS = 40
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_MERGE = "tag:yaml.org,2002:merge"
_NUMBERS = (
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_CORE = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (_FLOAT, _NUMBERS, list("-+.0123456789")),
    (_MERGE, r"<<", ["<"]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class YamlProblem:
    """One thing that is wrong with a text."""

    #: Both from 1 on; 0 where the place is not known.
    line: int
    column: int
    what: str
    #: It is YAML, but has a key twice.
    duplicate: bool = False

    @property
    def place(self) -> str:
        """ ":LINE:COLUMN", to stand behind a file's name; "" where it is not known."""
        return f":{self.line}:{self.column}" if self.line else ""


class YamlError(Exception):
    """A text that is not YAML, or that has a key twice; `problems` has all that was found."""

    def __init__(self, problems: list[YamlProblem]) -> None:
        super().__init__("; ".join(f"{each.place} {each.what}".strip() for each in problems))
        self.problems = problems


def documents(text: str | bytes, *, portable: bool = False) -> list[Any]:
    """Return the documents of a text, empty ones included, as plain values.

    `portable` asks for the parser in Python, which is slower and the same everywhere; without it
    the one in C is used where there is one, which differs from it in rare corners. Raises
    `YamlError` with every key that is given twice, or with the first thing that is no YAML.
    """
    loader: Any = None
    inspection = _Inspection()
    values = []
    try:
        loader = _strict(_base(portable=portable))(text)
        while loader.check_node():
            root = loader.get_node()
            inspection.look_at(root)
            values.append(loader.construct_document(root))
    except yaml.MarkedYAMLError as error:
        raise YamlError([_problem_of(error)]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise YamlError([YamlProblem(line=0, column=0, what=_flat(str(error)))]) from error
    except RecursionError as error:
        what = "it is nested too deeply, or holds itself"
        raise YamlError([YamlProblem(line=0, column=0, what=what)]) from error
    finally:
        if loader is not None:
            loader.dispose()
    if inspection.duplicates:
        raise YamlError(inspection.duplicates)
    return values


def _base(*, portable: bool) -> Any:
    return yaml.SafeLoader if portable else getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _strict(base: Any) -> type[Any]:
    """Return a loader like `base`, a safe one of PyYAML's, with the scalars of YAML 1.2."""
    own = {"yaml_implicit_resolvers": {}, "flatten_mapping": _flatten}
    loader: type[Any] = type(base.__name__, (base,), own)
    for tag, pattern, first in _CORE:
        loader.add_implicit_resolver(tag, re.compile(f"^(?:{pattern})$"), first)
    loader.add_constructor(_INT, _whole)
    loader.add_constructor(_FLOAT, _number)
    return loader


def _flatten(loader: Any, node: yaml.MappingNode) -> None:
    """Take in what `<<` names: a key's own value wins, then the first mapping that has it.

    That of PyYAML 6 loses a mapping's own value where it was merged into a third one.
    """
    own = [pair for pair in node.value if pair[0].tag != _MERGE]
    taken = {_word(key) for key, _ in own}
    merged = []
    for key, value in node.value:
        for source in _sources(value) if key.tag == _MERGE else ():
            _flatten(loader, source)
            found = [pair for pair in source.value if _word(pair[0]) not in taken]
            taken.update(_word(key) for key, _ in found)
            merged += found
    node.value = merged + own


def _word(key: yaml.Node) -> object:
    return key.value if isinstance(key, yaml.ScalarNode) else id(key)


def _sources(value: yaml.Node) -> list[yaml.MappingNode]:
    found = value.value if isinstance(value, yaml.SequenceNode) else [value]
    for each in found:
        if not isinstance(each, yaml.MappingNode):
            what = "<< must name a mapping, or a list of mappings"
            raise yaml.MarkedYAMLError(problem=what, problem_mark=each.start_mark)
    return list(found)


def _whole(loader: Any, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    if len(text) > MAX_NUMBER_CHARACTERS:
        what = "the number is too long: put it in quotes if it is text"
        raise yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)
    for prefix, base in (("0o", 8), ("0x", 16)):
        if text.startswith(prefix):
            return int(text[2:], base)
    return int(text, 10)


def _number(loader: Any, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


class _Inspection:
    """What is looked at before values are made: keys that stand twice, and what aliases add."""

    def __init__(self) -> None:
        self.duplicates: list[YamlProblem] = []
        self._sizes: dict[int, int] = {}  # of each collection, with all that its aliases stand for
        self._open: set[int] = set()
        self._written = 0

    def look_at(self, root: yaml.Node) -> None:
        """Raise `MarkedYAMLError` where aliases add too much, RecursionError for a circle."""
        if self._size(root) > self._written + MAX_ALIASED_NODES:
            what = f"its aliases stand for more than {MAX_ALIASED_NODES} values"
            raise yaml.MarkedYAMLError(problem=what, problem_mark=root.start_mark)

    def _size(self, node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            self._written += 1
            return 1
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in self._open:
            raise RecursionError
        self._open.add(id(node))
        self._written += 1
        size = 1 + sum(map(self._size, self._children(node)))
        self._open.discard(id(node))
        self._sizes[id(node)] = size
        return size

    def _children(self, node: yaml.Node) -> list[yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            return list(node.value)
        self.duplicates += _duplicates(node)
        return [each for pair in node.value for each in pair]


def _duplicates(node: yaml.MappingNode) -> Iterator[YamlProblem]:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
            continue
        line = key.start_mark.line + 1
        if key.value in seen:
            what = f'the key "{key.value}" was given in line {seen[key.value]} already: keep one'
            column = key.start_mark.column + 1
            yield YamlProblem(line=line, column=column, what=what, duplicate=True)
        seen[key.value] = line


def _problem_of(error: yaml.MarkedYAMLError) -> YamlProblem:
    mark = error.problem_mark or error.context_mark
    what = " ".join(part for part in (error.context, error.problem) if part)
    # That of a cron expression such as */5 * * * *.
    starred = ": what begins with a star needs quotes" if "an alias" in what else ""
    return YamlProblem(
        line=mark.line + 1 if mark else 0,
        column=mark.column + 1 if mark else 0,
        what=_flat(what) + starred,
    )


def _flat(text: str) -> str:
    return " ".join(text.split())
