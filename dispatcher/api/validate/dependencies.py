"""What a container or a task says that it waits for: checked, and as it is stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from longshore.dispatcher.api.schemas.containers import DependencyRequest
from longshore.dispatcher.domain.containers import Dependency, DependencyOn
from longshore.dispatcher.input.problems import Problems, element, quoted

TASK_NAME = re.compile(r"(?![cj]-)[A-Za-z0-9_][A-Za-z0-9_.-]{0,254}")
_ID = re.compile(r"c-[A-Za-z0-9]{1,64}|j-[A-Za-z0-9]{1,64}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,254})?")
_WHAT_IDS_ARE = "name a container (c-...), a job (j-...) or a task of a job (j-.../NAME)"

Entry = str | DependencyRequest


def dependencies(entries: Iterable[Entry]) -> tuple[Dependency, ...]:
    """Return what is waited for, as it is stored; tasks of the same job as "/NAME".

    Entries must have been checked.
    """
    return tuple(
        Dependency(
            of=awaited if is_id(awaited) else f"/{awaited}",
            on=DependencyOn(each.on),
            each=each.each,
        )
        for each in map(_whole, entries)
        for awaited in (each.of,)
    )


def is_id(awaited: str) -> bool:
    """Return whether a name is that of something outside of the job that names it."""
    return awaited.startswith(("c-", "j-"))


def name_of(entry: Entry) -> str:
    """Return the name of what an entry waits for."""
    return entry if isinstance(entry, str) else entry.of


def place_of(path: str, index: int, entry: Entry) -> str:
    """Return the path of the name in an entry of the list at `path`."""
    place = element(path, index)
    return place if isinstance(entry, str) else f"{place}.of"


def check_container(after: Sequence[Entry], path: str, most: int, problems: Problems) -> None:
    """Add what is wrong with what a container waits for that is in no job."""
    if not check_entries(after, path, most, problems):
        return
    for index, entry in enumerate(after):
        awaited = name_of(entry)
        if not is_id(awaited):
            sentence = f"{quoted(awaited)} is not an id: {_WHAT_IDS_ARE}"
            problems.add(place_of(path, index, entry), sentence)
        if _whole(entry).each:
            problems.add(
                f"{element(path, index)}.each",
                "is for the elements of an array, and a container is none: leave it out",
            )


def check_entries(after: Sequence[Entry], path: str, most: int, problems: Problems) -> bool:
    """Add what is wrong with entries wherever they are; return false when they are too many."""
    if len(after) > most:
        problems.add(path, f"has {len(after)} entries: wait for at most {most}, or for a whole job")
        return False
    first: dict[str, int] = {}
    for index, entry in enumerate(after):
        awaited = name_of(entry)
        if is_id(awaited) and not _ID.fullmatch(awaited):
            sentence = f"{quoted(awaited)} is not an id: {_WHAT_IDS_ARE}"
            problems.add(place_of(path, index, entry), sentence)
        elif awaited in first:
            earlier = element("after", first[awaited])
            sentence = f"{quoted(awaited)} is named in {earlier} already: keep one of them"
            problems.add(place_of(path, index, entry), sentence)
        first.setdefault(awaited, index)
    return True


def _whole(entry: Entry) -> DependencyRequest:
    return DependencyRequest(of=entry) if isinstance(entry, str) else entry
