"""Reading a configuration file: YAML, without the traps of YAML, into plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from dispatcher.input.yaml_booleans import without_boolean_words
from drivers.errors import ConfigError

FILE_LIMIT_BYTES = 1024 * 1024


def read_mapping(path: Path) -> dict[Any, Any]:
    """Return what the YAML file `path` says, as plain values; an empty file is an empty mapping.

    Raises `ConfigError` for a file that cannot be read, text that is not YAML (with its line and
    column), a key that appears twice, and anything but one mapping.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_LIMIT_BYTES + 1)
    except OSError as error:
        what = f"cannot be read ({error.strerror}): name a readable file with -c"
        raise ConfigError([(str(path), what)]) from error
    if len(content) > FILE_LIMIT_BYTES:
        raise ConfigError([(str(path), f"is larger than {FILE_LIMIT_BYTES} bytes: shorten it")])
    return _parsed(path, content)


def _parsed(path: Path, content: bytes) -> dict[Any, Any]:
    # The C parser and the Python one differ in what they accept; one of them is enough.
    loader: _Loader | None = None
    try:
        loader = without_boolean_words(_Loader)(content)
        value = loader.get_single_data()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        what = " ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError([(f"{path}{place}", f"is not valid YAML: {what}")]) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        what = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError([(str(path), f"is not valid YAML: {what}")]) from error
    finally:
        if loader is not None:
            loader.dispose()
    if loader.duplicates:
        raise ConfigError([(f"{path}{place}", what) for place, what in loader.duplicates])
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError([(str(path), "must be a mapping of options: write `name: value` lines")])
    return value


class _Loader(yaml.SafeLoader):
    """Notes every key that appears twice, where YAML's own answer is to take the last one."""

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.duplicates: list[tuple[str, str]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            line = key.start_mark.line + 1
            if key.value in seen:
                place = f":{line}:{key.start_mark.column + 1}"
                what = (
                    f'the key "{key.value}" was given in line {seen[key.value]} already: keep one'
                )
                self.duplicates.append((place, what))
            seen[key.value] = line
        return super().construct_mapping(node, deep=deep)
