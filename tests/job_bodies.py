"""Bodies of jobs, and what the API's checks make of them."""

from __future__ import annotations

from typing import Any

import pytest

from longshore.dispatcher.api.validate.jobs import JobDecoder
from longshore.dispatcher.api.validate.limits import ApiLimits, Defaults
from longshore.drivers.errors import InvalidRequest

ONE: dict[str, Any] = {"command": ["true"]}


def decoder(**limits: int) -> JobDecoder:
    """Return the checks under limits of the test's own, in November 2023."""
    return JobDecoder(
        limits=ApiLimits(**limits),
        defaults=Defaults(),
        instance_type_names=("large", "small"),
        now=lambda: 1_700_000_000.0,
        seal="{} sealed: {}".format,
    )


def refused(value: object, **limits: int) -> list[tuple[str, str]]:
    """Return what is wrong with a job, as paths and sentences; it must be something."""
    with pytest.raises(InvalidRequest) as caught:
        decoder(**limits).job(value)
    return list(caught.value.problems)


def task(name: str, *after: object, **more: object) -> dict[str, Any]:
    """Return a task of a name that waits for others."""
    return {"name": name, "command": ["true"], "after": list(after), **more}


def chain(number: int) -> list[dict[str, Any]]:
    """Return tasks of which each waits for the one before, the last first."""
    return [task(f"t{n}", *([f"t{n - 1}"] if n else [])) for n in reversed(range(number))]
