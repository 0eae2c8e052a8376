"""Semantic validation of a container request, alone or as a task of a job.

The decoder has checked types and shapes before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from longshore.dispatcher.api.schemas.containers import ContainerRequest, RunRequest
from longshore.dispatcher.api.validate.dependencies import check_container
from longshore.dispatcher.api.validate.images import image_problem
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.api.validate.names import RESERVED_PREFIX, VARIABLE
from longshore.dispatcher.api.validate.rfc3339 import start_problem
from longshore.dispatcher.api.validate.secrets import check_secrets, plain_env
from longshore.dispatcher.api.validate.specification import gpus_of
from longshore.dispatcher.input.problems import Problems, element, member, quoted
from longshore.dispatcher.input.quantities import memory_problem
from longshore.dispatcher.input.text_rules import name_problem, text_problem
from longshore.dispatcher.input.validation import decode_checked
from longshore.drivers.errors import InvalidRequest
from longshore.drivers.interface import DIMENSIONS

Wanted = TypeVar("Wanted")

_FIRST_KEY = re.compile(r"[A-Za-z0-9_-]+")
_FIRST_ENTRY = "give at least one entry that is not empty"
_SMALL_ORDER_BYTES = 64 * 2**10


class ContainerChecks:
    """Checks under given limits and instance type names; has no state.

    `now` gives seconds since the epoch, or None where nobody knows them.
    """

    def __init__(
        self,
        *,
        limits: ApiLimits,
        instance_type_names: Collection[str],
        now: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._limits = limits
        self._type_names = frozenset(instance_type_names)
        self._now = now

    def check(self, request: RunRequest, path: str, problems: Problems) -> None:
        """Add what is wrong with what every request has, but its name and what it waits for."""
        place = f"{path}." if path else ""
        before = len(problems)
        self._check_program(request, place, problems)
        self._check_env(plain_env(request), f"{place}env", problems)
        check_secrets(request, place, problems)
        if len(problems) == before:
            self._check_order(request, place, problems)
        if request.image and (wrong := image_problem(request.image)):
            problems.add(f"{place}image", wrong)
        self.check_labels(request.labels, f"{place}labels", problems)
        constraints = f"{place}constraints"
        self.check_labels(request.constraints.labels, f"{constraints}.labels", problems)
        for index, name in enumerate(request.constraints.instance_types[:1000]):
            if name not in self._type_names:
                where = element(f"{constraints}.instance_types", index)
                hint = problems.hint(name, self._type_names)
                problems.add(where, f"{quoted(name)} is not an instance type here: {hint}")
        if len(request.constraints.instance_types) > 1000:
            problems.add(f"{constraints}.instance_types", "has over 1000 entries: name fewer")
        self._check_count(request.resources, f"{place}resources", problems)
        _check_names(request.resources, f"{place}resources", problems)
        for name in sorted(request.resources.keys() & set(DIMENSIONS)):
            problems.add(f"{place}resources.{name}", "has a field of its own: use that instead")
        if wrong := memory_problem(request.memory):
            problems.add(f"{place}memory", wrong)
        _check_gpus(request, f"{place}gpus", problems)
        if request.not_before is not None and (
            wrong := start_problem(request.not_before, self._now())
        ):
            problems.add(f"{place}not_before", wrong)

    def check_container(self, request: ContainerRequest, path: str, problems: Problems) -> None:
        """Add what is wrong with a container that is in no job."""
        self.check(request, path, problems)
        place = f"{path}." if path else ""
        check_text(request.name, f"{place}name", problems)
        check_project(request.project, f"{place}project", problems)
        check_container(request.after, f"{place}after", self._limits.after_entries, problems)

    def _check_program(self, request: RunRequest, place: str, problems: Problems) -> None:
        """Add what is wrong with what is to be executed: an image may know that by itself."""
        command, entrypoint = request.command, request.entrypoint
        if entrypoint is not None and not request.image:
            problems.add(f"{place}entrypoint", "is for an image: name one, or leave it out")
        if command and not command[0]:
            problems.add(f"{place}command", f"must name a program: {_FIRST_ENTRY}")
        elif not command and not request.image:
            problems.add(f"{place}command", f"must name a program: {_FIRST_ENTRY}, or an image")
        elif not command and entrypoint == []:
            what = "must name a program: with 'entrypoint: []' the image names none"
            problems.add(f"{place}command", what)
        self._check_words(command, f"{place}command", problems)
        if entrypoint:
            if not entrypoint[0]:
                problems.add(f"{place}entrypoint", f"must name a program: {_FIRST_ENTRY}")
            self._check_words(entrypoint, f"{place}entrypoint", problems)

    def _check_words(self, command: list[str], path: str, problems: Problems) -> None:
        limits = self._limits
        if len(command) > limits.command_items:
            problems.add(path, f"has over {limits.command_items} entries: pass a file instead")
            return
        sizes = [_bytes(argument) for argument in command]
        if sum(sizes) + len(sizes) > limits.command_bytes:
            problems.add(path, f"is over {limits.command_bytes} bytes in all: pass a file instead")
        for index, argument in enumerate(command):
            if "\0" in argument:
                problems.add(element(path, index), "contains a NUL byte: no program can get one")
            if sizes[index] > limits.argument_bytes:
                most = limits.argument_bytes
                problems.add(
                    element(path, index), f"is over {most} bytes, more than Linux can pass on"
                )

    def _check_env(self, env: dict[str, str], path: str, problems: Problems) -> None:
        limits = self._limits
        if len(env) > limits.environment_items:
            problems.add(
                path, f"has over {limits.environment_items} variables: pass a file instead"
            )
            return
        total = 0
        for name, value in env.items():
            size = _bytes(name) + _bytes(value) + 2
            total += size
            if size > limits.argument_bytes:
                most = limits.argument_bytes - 2
                problems.add(
                    member(path, name),
                    f"name and value are over {most} bytes, more than Linux can pass on",
                )
            if "\0" in value:
                problems.add(member(path, name), "contains a NUL byte: no program can get one")
            if not VARIABLE.fullmatch(name):
                problems.add(
                    member(path, name),
                    "is not a variable's name: use letters, digits and underscores, no digit first",
                )
            elif name.startswith(RESERVED_PREFIX):
                problems.add(
                    member(path, name), f"is reserved: {RESERVED_PREFIX}* is set by the server"
                )
        if total > limits.environment_bytes:
            most = limits.environment_bytes
            problems.add(path, f"is {total} bytes, at most {most} are allowed: pass a file instead")

    def _check_order(self, request: RunRequest, place: str, problems: Problems) -> None:
        """Refuse what the line to the runner cannot hold once it is escaped."""
        env, command = plain_env(request), [*(request.entrypoint or ()), *request.command]
        characters = sum(map(len, command)) + sum(map(len, env)) + sum(map(len, env.values()))
        if characters < _SMALL_ORDER_BYTES and len(command) + len(env) < 1000:
            return
        command_bytes, env_bytes = len(json.dumps(command)), len(json.dumps(env))
        if command_bytes + env_bytes > self._limits.order_bytes:
            larger = "env" if env_bytes >= command_bytes else "command"
            problems.add(
                f"{place}{larger}",
                f"command and env are {command_bytes + env_bytes} bytes as JSON, at most"
                f" {self._limits.order_bytes} are allowed: pass a file instead",
            )

    def check_labels(self, labels: dict[str, str], path: str, problems: Problems) -> None:
        """Add what is wrong with the labels of anything."""
        self._check_count(labels, path, problems)
        _check_names(labels, path, problems)
        for key, value in labels.items():
            check_text(value, member(path, key), problems, length=255)

    def _check_count(self, entries: Collection[str], path: str, problems: Problems) -> None:
        if len(entries) > self._limits.labels:
            problems.add(path, f"has over {self._limits.labels} entries: use fewer")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def check_text(text: str, path: str, problems: Problems, *, length: int = 200) -> None:
    """Add what is wrong with a line of text for people, such as a name."""
    if len(text) > length:
        problems.add(path, f"must have at most {length} characters, not {len(text)}")
    if wrong := text_problem(text):
        problems.add(path, wrong)


def check_project(project: str | None, path: str, problems: Problems) -> None:
    """Add what is wrong with the name of a project; None is the default one."""
    if project is not None and (wrong := name_problem(project)):
        problems.add(path, wrong)


def _check_names(names: Iterable[str], path: str, problems: Problems) -> None:
    for name in names:
        if wrong := name_problem(name):
            problems.add(member(path, name), wrong)


def _check_gpus(request: RunRequest, path: str, problems: Problems) -> None:
    wanted = gpus_of(request)
    if wanted.model and (wrong := name_problem(wanted.model)):
        problems.add(f"{path}.model", wrong)
    if wrong := memory_problem(wanted.memory):
        problems.add(f"{path}.memory", wrong)
    if not wanted.count and (wanted.model or wanted.memory):
        problems.add(
            f"{path}.count", "is 0, but a model or memory is named: ask for at least 1, or for none"
        )


def program_instead(item: Any) -> dict[str, Any]:
    """Return what stands for a command whose form is wrong; one that is missing is missed."""
    return {"command": ["unknown"]} if isinstance(item, dict) and "command" in item else {}


def decode_what_can_be(
    wanted: type[Wanted], item: Any, path: str, problems: Problems, **instead: Any
) -> Wanted | None:
    """Return `item` as a `wanted`, without what is wrong with it, so that the rest is checked too.

    Adds what is wrong to `problems`; `instead` is put in the place of what is wrong or missing.
    None when nothing is left to check.
    """
    try:
        return decode_checked(wanted, item, path)
    except InvalidRequest as error:
        problems.extend(error.problems)
        if not isinstance(item, dict):
            return None
        wrong = [where[len(path) :].lstrip(".") for where, _ in error.problems]
    bad = {match.group() for where in wrong if (match := _FIRST_KEY.match(where))}
    rest = {**instead, **{key: value for key, value in item.items() if key not in bad}}
    try:
        return decode_checked(wanted, rest)
    except InvalidRequest:
        return None
