"""From options or files to the JSON that is submitted; the server judges what it means."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from longshore.dispatcher.cli.client import CommandClient
from longshore.dispatcher.cli.failure import USAGE, CommandFailure
from longshore.dispatcher.cli.file_lines import Source, located

MAX_FILE_BYTES = 64 * 1024 * 1024
_ONLY_OF_JOBS = frozenset({"tasks", "type", "periodic", "parameterized"})


def pairs(option: str, values: Iterable[str], *, from_environment: bool = False) -> dict[str, str]:
    """Return NAME=VALUE arguments as a mapping; a bare NAME takes its value from our environment.

    Raises `CommandFailure` for an argument that is neither.
    """
    mapping: dict[str, str] = {}
    for value in values:
        name, sign, content = value.partition("=")
        if from_environment and not sign and name in os.environ:
            sign, content = "=", os.environ[name]
        if not name or not sign:
            wanted = "NAME=VALUE, or the NAME of a variable that is set" if from_environment else ""
            raise CommandFailure(
                f"{option} {value!r} is not {wanted or 'KEY=VALUE'}",
                remedy=f"Write for example {option} {name or 'NAME'}=something",
                exit_code=USAGE,
            )
        mapping[name] = _sendable(f"{option} {name}", content)
    return mapping


def _sendable(where: str, text: str) -> str:
    """Return `text`; raises `CommandFailure` for a variable of ours that JSON cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        remedy = "Leave it out, or set it in a script"
        raise CommandFailure(f"{where} is not UTF-8", remedy=remedy, exit_code=USAGE) from error
    return text


def amounts(option: str, values: Iterable[str]) -> dict[str, int]:
    """Return NAME=N arguments as a mapping; raises `CommandFailure` for anything else."""
    return {
        name: _whole(option, text, f"{option} {name}=1")
        for name, text in pairs(option, values).items()
    }


def gpus(text: str) -> object:
    """Return what "N[,model=MODEL][,memory=SIZE]" asks for, as JSON; sizes are left as they are.

    Raises `CommandFailure` for anything else.
    """
    count, *details = text.split(",")
    wanted: dict[str, object] = {"count": _whole("--gpus", count, "--gpus 2")}
    for name, value in pairs("--gpus", details).items():
        if name not in ("model", "memory") or not value:
            raise CommandFailure(
                f"--gpus {text!r} has {name!r}, which is not model=MODEL or memory=SIZE",
                remedy="Write for example --gpus 2,model=a100,memory=40GiB",
                exit_code=USAGE,
            )
        wanted[name] = value
    return wanted if details else wanted["count"]


def _whole(option: str, text: str, example: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise CommandFailure(
            f"{option} must be a whole number from 0 on, and {text!r} is not",
            remedy=f"Write for example {example}",
            exit_code=USAGE,
        )
    return int(text)


def read_sources(paths: Sequence[str]) -> list[Source]:
    """Return files as text; `-` is stdin. Raises `CommandFailure` for what cannot be read."""
    if paths.count("-") > 1:
        raise CommandFailure(
            "'-f -' is given twice", remedy="Stdin can be read once", exit_code=USAGE
        )
    names = [(path, "stdin" if path == "-" else path) for path in paths]
    return [Source(name=name, path=path, text=_text(path, name)) for path, name in names]


def content(sources: Sequence[Source]) -> object:
    """Return what files ask for: one object, or the list of all objects in all of them.

    A file holds an object or a list, as JSON or YAML. Raises `CommandFailure` for what cannot be
    read, and for a job that is not alone: several cannot be submitted all or nothing.
    """
    documents: list[object] = []
    for source in sources:
        try:
            documents += _documents(source)
        except RecursionError as error:
            why = "it is nested too deeply, or holds itself"
            raise _unreadable(source.name, why) from error
    if len(documents) == 1:
        items: list[object] = documents[0] if isinstance(documents[0], list) else []
    else:
        items = []
        for document in documents:
            items += document if isinstance(document, list) else [document]
    for number, item in enumerate(items, 1):
        if is_job_body(item):
            raise CommandFailure(
                f"number {number} of {len(items)} is a job, and a job is submitted alone",
                remedy="Give one file with one object that has tasks",
                exit_code=USAGE,
            )
    return documents[0] if len(documents) == 1 else items


def is_job_body(body: object) -> bool:
    """Return whether an object describes a job: it has what only jobs have."""
    if not isinstance(body, dict):
        return False
    # Who misspells it means it all the same, and is told so by the server.
    meant = get_close_matches("tasks", [key for key in body if isinstance(key, str)], 1, 0.75)
    return bool(meant) or not _ONLY_OF_JOBS.isdisjoint(body)


def _documents(source: Source) -> list[object]:
    text, name = source.text, source.name
    stripped = text.lstrip()
    if source.path.endswith(".json") or stripped.startswith(("{", "[")):
        try:
            return [json.loads(text, object_pairs_hook=_unique)]
        except _GivenTwiceError as error:
            # It is YAML as well, and that has lines.
            _yaml_documents(text, name)
            raise _unreadable(name, f"the key {error} is given twice: keep one") from error
        except ValueError as error:
            if source.path.endswith(".json"):
                raise _unreadable(name, f"not JSON: {error}") from error
    documents = _yaml_documents(text, name)
    if not documents:
        raise _unreadable(name, "it is empty")
    for document in documents:
        if not isinstance(document, dict | list):
            raise _unreadable(name, "it holds neither an object nor a list of objects")
    return documents


class _GivenTwiceError(Exception):
    """An object of JSON has a key twice, of which Python would take the last."""


def _unique(members: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in members:
        if name in found:
            raise _GivenTwiceError(json.dumps(name))
        found[name] = value
    return found


def _text(path: str, name: str) -> str:
    try:
        if path == "-":
            content = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise _unreadable(name, error.strerror or str(error)) from error
    if len(content) > MAX_FILE_BYTES:
        raise _unreadable(name, f"it is larger than {MAX_FILE_BYTES // 2**20} MiB")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unreadable(name, "it is not UTF-8") from error


def _yaml_documents(text: str, name: str) -> list[object]:
    # JSON does not need it, and it is slow to import.
    from longshore.dispatcher.input.yaml_text import YamlError, documents  # noqa: PLC0415 - see above

    try:
        return [_plain(each, name) for each in documents(text) if each is not None]
    except YamlError as error:
        if not error.problems[0].duplicate:
            found = error.problems[0]
            raise _unreadable(f"{name}{found.place}", f"not YAML: {found.what}") from error
        raise CommandFailure(
            f"{name} has a key twice",
            exit_code=USAGE,
            problems=[(f"{name}{each.place}", each.what) for each in error.problems],
        ) from error


def _plain(value: Any, name: str) -> object:
    """Return `value` as JSON can say it: YAML's dates become text again, its keys are text."""
    match value:
        case dict():
            return {_key(key): _plain(child, name) for key, child in value.items()}
        case list():
            return [_plain(child, name) for child in value]
        case date():
            return value.isoformat()
        case None | bool() | int() | str():
            return value
        case float() if value - value == 0:
            return value
        case _:
            raise _unreadable(name, f"JSON has no such value: {value!r}")


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key, default=str)


def _unreadable(name: str, why: str) -> CommandFailure:
    return CommandFailure(
        f"cannot read {name}: {why}",
        remedy="It must hold one job, one container or a list of containers, as YAML or JSON",
        exit_code=USAGE,
    )


def sources_of(
    files: tuple[str, ...], command: tuple[str, ...], described: dict[str, Any]
) -> list[Source]:
    """Return the files, read; raises `UsageError` unless there are files or options alone."""
    given = sorted(name for name, value in described.items() if value not in (None, (), ""))
    if files and (command or given):
        what = f"--{given[0].replace('_', '-')}" if given else "a command"
        raise click.UsageError(f"-f and {what} cannot be combined: write it into the file.")
    if not files and not command and not described["image"]:
        raise click.UsageError("Nothing to run: give '-- CMD...', '--image IMAGE' or '-f FILE'.")
    return read_sources(files)


def send(
    client: CommandClient, body: object, sources: Sequence[Source], idempotency_key: str
) -> Any:
    """Submit a job or containers; return the answer.

    Raises `CommandFailure` for what the server refuses, with the line of the file.
    """
    path = "/v1/jobs" if is_job_body(body) else "/v1/containers"
    try:
        return client.send("POST", path, body, idempotency_key=idempotency_key)
    except CommandFailure as failure:
        raise located(failure, sources) from failure
