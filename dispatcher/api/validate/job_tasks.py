"""What may be wrong with the tasks of a job together: names, sizes, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from longshore.dispatcher.api.schemas.containers import DependencyRequest
from longshore.dispatcher.api.schemas.jobs import ArrayRequest, TaskRequest
from longshore.dispatcher.api.validate.cycles import find_cycles
from longshore.dispatcher.api.validate.dependencies import (
    TASK_NAME,
    check_entries,
    is_id,
    name_of,
    place_of,
)
from longshore.dispatcher.api.validate.limits import ApiLimits
from longshore.dispatcher.input.problems import Problems, did_you_mean, element, quoted
from longshore.dispatcher.input.quantities import JOB_CONTAINERS_MAX

# ---- the nearest of many names to one that is not among them, in bounded time --------------------

_HINTS_MOST = 20


class NearNames:
    """Says what somebody may have meant; only the first twenty questions get an answer."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = sorted(set(names))
        self._asked = 0

    def hint(self, word: str) -> str:
        """Return `did you mean "x"?`, or a sentence that lists names; "" after many questions."""
        self._asked += 1
        return did_you_mean(word, self._names) if self._asked <= _HINTS_MOST else ""


# ---- what may be wrong with the tasks of a job together: names, sizes, and who waits for whom ----

_NAME_RULE = (
    "use 1 to 255 letters, digits, dots, dashes and underscores, no dot or dash first,"
    ' and neither "c-" nor "j-", with which ids begin'
)
_SHOWN_OF_A_CYCLE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenTask:
    """A task as far as it could be read."""

    path: str
    #: None where that is no text.
    name: str | None
    #: None where nothing could be read.
    request: TaskRequest | None
    #: Whether it is known to be an array of a certain size, or none.
    array_known: bool

    @property
    def array_size(self) -> int | None:
        """Return the size of its array, None where it is none or not known."""
        array = None if self.request is None else self.request.array
        return array.size if isinstance(array, ArrayRequest) else array


def check_tasks(tasks: Sequence[GivenTask], limits: ApiLimits, problems: Problems) -> None:
    """Add what is wrong with tasks beside one another."""
    _check_names(tasks, problems)
    containers = sum(each.array_size or 1 for each in tasks)
    if containers > JOB_CONTAINERS_MAX:
        problems.add(
            "tasks",
            f"are {containers} containers in all: a job has at most {JOB_CONTAINERS_MAX},"
            " submit several",
        )
    # Each element of an array waits for all of it.
    entries = sum(
        len(each.request.after) * (each.array_size or 1)
        for each in tasks
        if each.request is not None
    )
    if entries > limits.after_entries_in_all:
        most = limits.after_entries_in_all
        problems.add(
            "tasks",
            f"wait for {entries} things in all: at most {most} are allowed, let a task that does"
            " nothing stand between many and many",
        )
        return
    _Waiting(tasks, limits.after_entries, problems).check()


def _check_names(tasks: Sequence[GivenTask], problems: Problems) -> None:
    first: dict[str, str] = {}
    for task in tasks:
        if task.name is None:
            continue
        path = f"{task.path}.name"
        if not task.name:
            if len(tasks) > 1:
                problems.add(path, "is missing: each task has one where a job has several")
        elif not TASK_NAME.fullmatch(task.name):
            problems.add(path, f"{quoted(task.name)} is not a task's name: {_NAME_RULE}")
        elif task.name in first:
            problems.add(path, f"{quoted(task.name)} is that of {first[task.name]} too: change one")
        first.setdefault(task.name, task.path)


class _Waiting:
    """The check of what tasks wait for."""

    def __init__(self, tasks: Sequence[GivenTask], most: int, problems: Problems) -> None:
        self._tasks = tasks
        self._most = most
        self._problems = problems
        self._numbers: dict[str, int] = {}
        for number, task in enumerate(tasks):
            if task.name:
                self._numbers.setdefault(task.name, number)
        self._near = NearNames(self._numbers)

    def check(self) -> None:
        """Add what is wrong with any of it."""
        # For each task the tasks that it waits for, and where it says so.
        awaited: list[list[int]] = []
        places: list[list[str]] = []
        for task in self._tasks:
            found = self._siblings(task)
            awaited.append([number for number, _ in found])
            places.append([place for _, place in found])
        for cycle in find_cycles(awaited):
            last = cycle[-1]
            place = places[last][awaited[last].index(cycle[0])]
            shown = " -> ".join(self._shown(cycle))
            self._problems.add(
                place, f"closes a circle of tasks that wait for each other: {shown}; break it"
            )

    def _siblings(self, task: GivenTask) -> list[tuple[int, str]]:
        """Return the numbers of the tasks that one waits for, with the places of their names."""
        if task.request is None:
            return []
        path, after = f"{task.path}.after", task.request.after
        if not check_entries(after, path, self._most, self._problems):
            return []
        found = []
        for index, entry in enumerate(after):
            awaited, place = name_of(entry), place_of(path, index, entry)
            number = self._numbers.get(awaited)
            if number is not None and not is_id(awaited):
                found.append((number, place))
            elif not is_id(awaited):
                self._problems.add(place, self._unknown(awaited))
            if isinstance(entry, DependencyRequest) and entry.each:
                other = None if number is None else self._tasks[number]
                self._check_each(task, awaited, other, f"{element(path, index)}.each")
        return found

    def _check_each(
        self, task: GivenTask, awaited: str, other: GivenTask | None, where: str
    ) -> None:
        """Add what is wrong with waiting element by element; `other` is None outside of the job."""
        wanted = task.array_size
        if task.array_known and wanted is None:
            self._problems.add(where, "is for the elements of an array: leave it out here")
        elif awaited.startswith("c-"):
            self._problems.add(where, "is for arrays, and a container is none: leave it out")
        elif wanted is not None and other is not None and other.array_known:
            size = other.array_size
            if size == wanted:
                return
            what = "no array" if size is None else f"an array of {size}"
            self._problems.add(
                where,
                f"{quoted(awaited)} is {what}, and this one of {wanted}: element by element"
                " both have one size",
            )

    def _unknown(self, awaited: str) -> str:
        sentence = f"there is no task {quoted(awaited)} in this job"
        hint = self._near.hint(awaited)
        return f"{sentence}: {hint}" if hint else f"{sentence}: name one of its tasks, or an id"

    def _shown(self, cycle: tuple[int, ...]) -> list[str]:
        names = [self._tasks[number].name or "" for number in cycle]
        plain = [name if TASK_NAME.fullmatch(name) else quoted(name) for name in names]
        if len(plain) > _SHOWN_OF_A_CYCLE:
            left_out = len(plain) - _SHOWN_OF_A_CYCLE
            half = _SHOWN_OF_A_CYCLE // 2
            return [*plain[:half], f"({left_out} more)", *plain[-half:], plain[0]]
        return [*plain, plain[0]]
