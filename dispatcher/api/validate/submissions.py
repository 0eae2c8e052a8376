"""From the body of a submission to validated containers; all problems of all items at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from longshore.dispatcher.api.schemas.containers import ContainerRequest
from longshore.dispatcher.api.validate.containers import (
    ContainerChecks,
    decode_what_can_be,
    program_instead,
)
from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.dispatcher.api.validate.specification import Seal, specification
from longshore.dispatcher.input.problems import Problems, ProblemsFull, element
from longshore.dispatcher.input.validation import parse_json
from longshore.dispatcher.service.contracts import NewContainer
from longshore.drivers.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A validated body: `listed` tells whether it was a list, `fingerprint` what it meant."""

    items: tuple[NewContainer, ...]
    listed: bool
    fingerprint: str


class SubmissionDecoder:
    """Decodes submissions under given limits, defaults and instance type names; has no state.

    `now` gives seconds since the epoch, or None where nobody knows them; `seal` encrypts the secret
    values of variables.
    """

    def __init__(
        self,
        *,
        limits: ApiLimits,
        defaults: Defaults,
        instance_type_names: Collection[str],
        now: Callable[[], float | None] = lambda: None,
        seal: Seal,
    ) -> None:
        self._limits = limits
        self._seal = seal
        self._defaults = defaults
        self._checks = ContainerChecks(
            limits=limits, instance_type_names=instance_type_names, now=now
        )

    def decode(self, body: bytes, *, project: str = "") -> Submission:
        """Return what a body asks for; raises `InvalidRequest` with the problems of all items.

        `project` is that of items which name none, "" for the default one. May be called in any
        thread.
        """
        value = parse_json(body)
        listed = isinstance(value, list)
        if listed and not 1 <= len(value) <= self._limits.list_items:
            most = self._limits.list_items
            raise InvalidRequest(
                [("", f"the list has {len(value)} items: send 1 to {most} at a time")]
            )
        if listed:
            requests = self._requests([(element("", i), item) for i, item in enumerate(value)])
        else:
            requests = self._requests([("", value)])
        return Submission(
            items=tuple(
                self._new_container(request, project or self._defaults.project)
                for request in requests
            ),
            listed=listed,
            fingerprint=fingerprint_in(project, value, self._defaults),
        )

    def _requests(self, items: list[tuple[str, Any]]) -> list[ContainerRequest]:
        problems = Problems()
        requests = []
        try:
            for path, item in items:
                request = decode_what_can_be(
                    ContainerRequest, item, path, problems, **program_instead(item)
                )
                if request is not None:
                    self._checks.check_container(request, path, problems)
                    requests.append(request)
            self._check_after(requests, problems)
        except ProblemsFull:
            raise InvalidRequest(problems.listed()) from None
        if problems:
            raise InvalidRequest(problems.listed())
        return requests

    def _check_after(self, requests: list[ContainerRequest], problems: Problems) -> None:
        entries, most = sum(len(each.after) for each in requests), self._limits.after_entries_in_all
        if entries > most:
            problems.add(
                "", f"waits for {entries} things in all: at most {most} are allowed, submit fewer"
            )

    def _new_container(self, request: ContainerRequest, project: str) -> NewContainer:
        defaults = self._defaults
        return NewContainer(
            spec=specification(request, defaults, self._seal),
            priority=defaults.priority if request.priority is None else request.priority,
            project=project if request.project is None else request.project,
        )


def fingerprint_in(project: str, value: Any, defaults: Defaults) -> str:
    """Return the fingerprint of a body of a caller whose project is another than the usual one.

    The same body means something else to a caller with another project.
    """
    usual = project in ("", defaults.project)
    return fingerprint(value if usual else {"project": project, "body": value})


def fingerprint(value: Any) -> str:
    """Return what tells one body from another that means something else.

    It is kept, and whoever knows the rest of a body could try all that a secret value may be: so
    two bodies that differ in nothing but these are the same.
    """
    kept = _without_secret_values(value)
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def _without_secret_values(value: Any) -> Any:
    """Return `value` with a mark for each secret value, whatever it is wrapped in."""
    match value:
        case {"env": dict() as env, **rest}:
            shown = {k: {"secret": True} if isinstance(v, dict) else v for k, v in env.items()}
            return {**_without_secret_values(rest), "env": shown}
        case dict():
            return {name: _without_secret_values(each) for name, each in value.items()}
        case list():
            return [_without_secret_values(each) for each in value]
        case _:
            return value
