"""Translating between jobs and rows of the tables, exactly both ways."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy import Row

from longshore.dispatcher.domain.containers import ContainerSpec, ContainerState
from longshore.dispatcher.domain.jobs import (
    Job,
    JobState,
    JobTask,
    JobType,
    JobTypeSpec,
    Tally,
    TaskRole,
)
from longshore.dispatcher.store.codec import (
    Values,
    encode_spec,
    reason_from_columns,
    reason_values,
)

_ENCODER = msgspec.json.Encoder()
_LABELS_DECODER = msgspec.json.Decoder(tuple[tuple[str, str], ...])
_TALLIES_DECODER = msgspec.json.Decoder(tuple[Tally, ...])
_TERMS_DECODER = msgspec.json.Decoder(JobTypeSpec)
_NO_TERMS = JobTypeSpec()
_NAMES = tuple(state.value for state in ContainerState)
_COUNTS = attrgetter(*_NAMES)


def job_values(job: Job) -> Values:
    """Return the row of a new job; its tasks have rows of their own."""
    return {
        "id": job.id,
        "sequence": job.sequence,
        "type": job.type.value,
        "user": job.user,
        "project": job.project,
        "created_at": job.created_at,
        "cancel_requested": job.cancel_requested,
        "held": job.held,
        "parent": job.parent,
        "launched_for": job.launched_for,
        **job_revision_values(job),
        **job_progress_values(job),
    }


def job_revision_values(job: Job) -> Values:
    """Return the columns that the user names, and another revision of a job replaces."""
    return {
        "name": job.name,
        "priority": job.priority,
        "labels": _ENCODER.encode(job.labels),
        "terms": None if job.terms == _NO_TERMS else _ENCODER.encode(job.terms),
    }


def job_progress_values(job: Job) -> Values:
    """Return the columns that the engine owns and changes while a job goes its way."""
    return {
        "state": job.state.value,
        "ended": job.state.value if job.state.final else "",
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "exit_code": job.exit_code,
        "tallies": _encode_tallies(job.tallies),
        **reason_values(job.reason),
    }


def task_values(job: Job) -> list[Values]:
    """Return the rows of a job's tasks, numbered in their order."""
    return [
        {
            "job_id": job.id,
            "number": number,
            "name": task.name,
            "size": task.size,
            "is_array": task.is_array,
            "max_running": task.max_running,
            "spec": encode_spec(task.spec),
            "role": task.role.value,
            "startup_order": task.startup_order,
        }
        for number, task in enumerate(job.tasks)
    ]


def job_from_row(row: Row[Any], tasks: tuple[JobTask, ...], tallies: tuple[Tally, ...]) -> Job:
    """Return the job of a row of `jobs`, with `tasks` and `tallies` as its own."""
    return Job(
        id=row.id,
        sequence=row.sequence,
        name=row.name,
        user=row.user,
        project=row.project,
        priority=row.priority,
        created_at=row.created_at,
        tasks=tasks,
        tallies=tallies,
        type=JobType(row.type),
        labels=_LABELS_DECODER.decode(row.labels),
        state=JobState(row.state),
        started_at=row.started_at,
        finished_at=row.finished_at,
        exit_code=row.exit_code,
        reason=reason_from_columns(row.reason_code, row.reason_message),
        cancel_requested=row.cancel_requested,
        held=row.held,
        terms=decode_terms(row.terms),
        parent=row.parent,
        launched_for=row.launched_for,
    )


def task_from_row(row: Row[Any], spec: ContainerSpec) -> JobTask:
    """Return the task of a row of `job_tasks`, with `spec` as its specification."""
    return JobTask(
        name=row.name,
        spec=spec,
        size=row.size,
        is_array=row.is_array,
        max_running=row.max_running,
        role=TaskRole(row.role),
        startup_order=row.startup_order,
    )


def decode_terms(text: bytes | None) -> JobTypeSpec:
    """Return the terms of a row of `jobs`."""
    return _NO_TERMS if text is None else _TERMS_DECODER.decode(text)


def _encode_tallies(tallies: Sequence[Tally]) -> bytes:
    # Without what is nought: thousands of tasks have one container each.
    counts = [zip(_NAMES, _COUNTS(tally), strict=True) for tally in tallies]
    return _ENCODER.encode([{name: count for name, count in each if count} for each in counts])


def decode_tallies(text: bytes) -> tuple[Tally, ...]:
    """Return the tallies of a row of `jobs`, one for each task."""
    return _TALLIES_DECODER.decode(text)
