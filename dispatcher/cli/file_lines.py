"""Where in a file stands what a server finds wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from longshore.dispatcher.cli.failure import CommandFailure

if TYPE_CHECKING:
    from yaml import Node

MAX_LOCATED_CHARACTERS = 2 * 1024 * 1024
_STEP = re.compile(r'\.?([A-Za-z0-9_-]+)|\[([0-9]{1,9})\]|\[("(?:[^"\\]|\\.)*")\]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file that was read: `name` is what people know it by."""

    name: str
    path: str
    text: str


def located(failure: CommandFailure, sources: Sequence[Source]) -> CommandFailure:
    """Return `failure` with each problem's file and line before its path, where they are known."""
    if not failure.problems or not sources:
        return failure
    places = DocumentLines(sources)
    problems = [
        (": ".join(part for part in (places.of(path), path) if part), what)
        for path, what in failure.problems
    ]
    return CommandFailure(
        failure.sentence,
        remedy=failure.remedy,
        exit_code=failure.exit_code,
        problems=problems,
        status=failure.status,
        in_doubt=failure.in_doubt,
    )


class DocumentLines:
    """The documents of files as they were sent: one object, or all objects of all in a list."""

    def __init__(self, sources: Sequence[Source]) -> None:
        nodes = [_documents(each) for each in sources]
        # Of one that cannot be read nobody knows how many it adds to the numbers of the others.
        self._readable = all(nodes)
        documents = [
            (each.name, node) for each, found in zip(sources, nodes, strict=True) for node in found
        ]
        self._root = documents[0] if len(documents) == 1 else None
        self._items = [(name, item) for name, node in documents for item in _items(node)]

    def of(self, path: str) -> str:
        """Return "jobs.yml:12" for a path like `tasks[0].cpus`, "" where nobody knows.

        For what is missing, it is the line of what lacks it.
        """
        if not self._readable:
            return ""
        steps = list(_steps(path))
        if self._root is not None:
            name, node = self._root
        else:
            if not steps or not steps[0].isdigit() or int(steps[0]) >= len(self._items):
                return ""
            name, node = self._items[int(steps.pop(0))]
        return f"{name}:{_line(node, steps)}"


def _steps(path: str) -> Iterator[str]:
    for found in _STEP.finditer(path):
        plain, index, quoted = found.groups()
        yield plain or index or str(json.loads(quoted))


def _line(node: Node, steps: Sequence[str]) -> int:
    from yaml import MappingNode, SequenceNode  # noqa: PLC0415 - slow to import, only files need it

    line = node.start_mark.line
    for step in steps:
        match node:
            case MappingNode():
                found = [(key, value) for key, value in node.value if key.value == step]
                if not found:
                    break
                key, node = found[-1]
                line = key.start_mark.line
            case SequenceNode() if step.isdigit() and int(step) < len(node.value):
                node = node.value[int(step)]
                line = node.start_mark.line
            case _:
                break
    return int(line) + 1


def _documents(source: Source) -> list[Node]:
    """Return the documents of a file as YAML sees them, which is nearly all of JSON, too.

    There are none where they are too large to be read again, or where it is no YAML.
    """
    import yaml  # noqa: PLC0415 - slow to import, and only files need it

    if len(source.text) > MAX_LOCATED_CHARACTERS:
        return []
    try:
        nodes = list(
            yaml.compose_all(source.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        )
    except (yaml.YAMLError, ValueError, RecursionError):
        # JSON that is no YAML, as with escaped surrogates: then its problems have no line.
        return []
    return [node for node in nodes if node.tag != "tag:yaml.org,2002:null"]


def _items(node: Node) -> list[Node]:
    from yaml import SequenceNode  # noqa: PLC0415 - slow to import, only files need it

    return list(node.value) if isinstance(node, SequenceNode) else [node]
