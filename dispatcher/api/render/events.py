"""What `/v1/events` says of a container, a job or an instance: the API's answer, as plain data.

Stands alone: the service renders its events by it through a port that the wiring fills, and no
route knows it.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec

from longshore.dispatcher.api.render.containers import container_answer
from longshore.dispatcher.api.render.instances import instance_answer
from longshore.dispatcher.api.render.jobs import job_answer
from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.jobs import Job
from longshore.dispatcher.domain.queries import LISTED_ATTEMPTS
from longshore.dispatcher.domain.views import InstanceView
from longshore.dispatcher.explain.explanation import WaitStatus
from longshore.dispatcher.service.events import EventRendering


def container_data(container: Container, standing: WaitStatus) -> dict[str, Any]:
    """Return a container as the data of an event: the API's JSON, as built-in types.

    Without what the user sent and what may be large or secret: its command, its environment and
    what it waits for, and with its last few attempts.
    """
    told = replace(container, spec=replace(container.spec, command=(), env=(), after=()))
    data = _plain(container_answer(told, standing, most_attempts=LISTED_ATTEMPTS))
    del data["command"], data["env"], data["after"]
    return data


def job_data(job: Job) -> dict[str, Any]:
    """Return a job, without its tasks, as the data of an event: JSON, as built-in types."""
    return _plain(job_answer(job, with_tasks=False))


def instance_data(view: InstanceView) -> dict[str, Any]:
    """Return an instance as the data of an event: the API's JSON, as built-in types."""
    return _plain(instance_answer(view))


def _plain(value: Any) -> dict[str, Any]:
    plain = msgspec.to_builtins(value, builtin_types=(Decimal,))
    assert isinstance(plain, dict)  # noqa: S101 - narrows the type; answers are structs
    return plain


RENDERING = EventRendering(
    container=container_data,
    job=job_data,
    instance=instance_data,
)
