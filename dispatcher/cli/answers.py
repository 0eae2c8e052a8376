"""What a server answered, as the command line reads it, and what is the same of all that ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from longshore.dispatcher.api.schemas.containers import ContainerAnswer
from longshore.dispatcher.api.schemas.jobs import JobAnswer
from longshore.dispatcher.api.schemas.reading import read_answer
from longshore.dispatcher.cli.failure import CommandFailure
from longshore.dispatcher.cli.ids import is_job

FINAL_STATES = ("succeeded", "failed", "cancelled")
WAITING_STATES = ("queued", "locked")
UNFINISHED_STATES = (*WAITING_STATES, "running")
CONTAINER_STATES = UNFINISHED_STATES + FINAL_STATES
UNFINISHED_JOB_STATES = ("pending", "running")
JOB_STATES = UNFINISHED_JOB_STATES + FINAL_STATES

Awaited = ContainerAnswer | JobAnswer
"""What can be waited for."""

Answer = TypeVar("Answer")


def read(data: Mapping[str, object], kind: type[Answer]) -> Answer:
    """Return `data` as an answer; raises `CommandFailure` where the server speaks otherwise."""
    try:
        return read_answer(data, kind)
    except msgspec.ValidationError as error:
        raise unreadable(str(error)) from error


def unreadable(why: str) -> CommandFailure:
    """Return what is said of an answer that is none."""
    return CommandFailure(
        f"cannot read what the server says ({why})",
        remedy="Its version differs from this command's: update the older one",
    )


def read_awaited(identifier: str, raw: Mapping[str, object]) -> Awaited:
    """Return what the server says of a job or a container, told apart by the id."""
    return read(raw, JobAnswer) if is_job(identifier) else read(raw, ContainerAnswer)


def is_final(seen: Awaited) -> bool:
    """Return whether nothing follows."""
    return seen.state in FINAL_STATES


def exit_status(seen: Awaited) -> int:
    """Return what a command that waited for it exits with: 0 only when it succeeded."""
    if seen.state == "succeeded":
        return 0
    return ((seen.exit_code or 0) & 0xFF) or 1
