"""Reading a configuration file: YAML, without the traps of YAML, into plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longshore.dispatcher.input.yaml_text import YamlError, YamlProblem, documents
from longshore.drivers.errors import ConfigError

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
    try:
        # The C parser and the Python one differ in what they accept; one of them is enough.
        found = documents(content, portable=True)
    except YamlError as error:
        raise ConfigError([_told(path, each) for each in error.problems]) from error
    if len(found) > 1:
        raise ConfigError([(str(path), "holds several documents: keep what stands before `---`")])
    value = found[0] if found else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError([(str(path), "must be a mapping of options: write `name: value` lines")])
    return value


def _told(path: Path, problem: YamlProblem) -> tuple[str, str]:
    what = problem.what if problem.duplicate else f"is not valid YAML: {problem.what}"
    return f"{path}{problem.place}", what
