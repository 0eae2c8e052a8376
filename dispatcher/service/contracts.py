"""What every door asks the services with, and how they refuse: no HTTP in here, and no JSON."""

from __future__ import annotations

from dataclasses import dataclass, replace

from longshore.dispatcher.domain.containers import ContainerSpec
from longshore.dispatcher.domain.jobs import JobTask, JobType, JobTypeSpec
from longshore.dispatcher.domain.trace_context import within

NO_TERMS = JobTypeSpec()


class NotFound(Exception):  # noqa: N818 - reads as the answer it becomes
    """There is no such container or instance; the message names it."""


class Forbidden(Exception):  # noqa: N818 - reads as the answer it becomes
    """The caller sees this and may not do it; the message says who may."""


class Conflict(Exception):  # noqa: N818 - reads as the answer it becomes
    """The thing is in a state that does not allow this; the message says which and why."""


class KeyReused(Exception):  # noqa: N818 - reads as the answer it becomes
    """A request's key was another request's, within a day; the message says to take a new one."""


class Unavailable(Exception):  # noqa: N818 - reads as the answer it becomes
    """The server cannot take this now (inbox full, store not writable); try again later."""


class InDoubt(Unavailable):
    """Nobody knows yet whether this is taken in; the message says so, and how to find out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContainer:
    """A validated request for one container."""

    spec: ContainerSpec
    priority: int
    project: str

    def within_trace(self, header: str) -> NewContainer:
        """Return it as part of the trace that a request's header names, "" for none."""
        return replace(self, spec=within(self.spec, header))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A validated request for a job.

    Tasks of its own that its tasks wait for stand in their `after` by name, behind "/" ("/align"):
    the job has no id yet. Cycles and unknown names have been refused.
    """

    name: str
    priority: int
    project: str
    labels: tuple[tuple[str, str], ...]
    tasks: tuple[JobTask, ...]
    type: JobType = JobType.BATCH
    terms: JobTypeSpec = NO_TERMS

    def within_trace(self, header: str) -> NewJob:
        """Return it as part of the trace that a request's header names, "" for none.

        Jobs that do not end with what was asked for (daemons, schedules, templates) are part of no
        trace of who submitted them.
        """
        if self.type is not JobType.BATCH or self.terms != NO_TERMS:
            return self
        tasks = (replace(task, spec=within(task.spec, header)) for task in self.tasks)
        return replace(self, tasks=tuple(tasks))
