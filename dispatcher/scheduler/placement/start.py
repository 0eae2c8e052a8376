"""What an attempt finds in its environment of what it is part of."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Attempt, Container
from longshore.dispatcher.scheduler.placement.container_port import ContainerPort
from longshore.drivers.interface import Resources
from longshore.pool.charging import SHARED_CPU_MILLIS
from longshore.pool.model import NO_SECRETS, AttemptOrder, SecretOrder, Worker
from longshore.pool.port import PoolPort


def environment(
    container: Container,
    attempt: Attempt,
    array_size: int | None,
    more: tuple[tuple[str, str], ...] = (),
) -> tuple[tuple[str, str], ...]:
    """Return the environment of an attempt: the user's, and ours, which wins; sorted by name.

    `array_size` is how many elements its array has, None when it is in none; `more` are further
    ones of ours.
    """
    ours = {
        "LONGSHORE_CONTAINER_ID": container.id,
        "LONGSHORE_ATTEMPT": str(attempt.number),
    }
    if container.job_id:
        ours["LONGSHORE_JOB_ID"] = container.job_id
    if container.task:
        ours["LONGSHORE_TASK"] = container.task
    if container.array_index is not None and array_size is not None:
        ours["LONGSHORE_ARRAY_INDEX"] = str(container.array_index)
        ours["LONGSHORE_ARRAY_SIZE"] = str(array_size)
    if container.pinned_to:
        ours["LONGSHORE_INSTANCE_ID"] = container.pinned_to
    return tuple(sorted({**dict(container.spec.env), **ours, **dict(more)}.items()))


def secrets_of(container: Container) -> SecretOrder:
    """Return what of secrets each attempt of a container is given; no value is in it."""
    spec = container.spec
    if not spec.secrets and not spec.sealed_env:
        return NO_SECRETS
    return SecretOrder(project=container.project, uses=spec.secrets, sealed_env=spec.sealed_env)


# ---- starting containers on workers, for whichever scheduler decides it --------------------------


class AttemptStarter:
    """Begins attempts: first in the container table, which journals them, then in the pool."""

    def __init__(self, pool: PoolPort, table: ContainerPort) -> None:
        self._pool = pool
        self._table = table

    def start(
        self,
        container_id: str,
        worker: Worker,
        need: Resources,
        now: float,
        *,
        revision: int = 0,
        more: tuple[tuple[str, str], ...] = (),
    ) -> Attempt:
        """Begin an attempt of a waiting container on a ready worker, where `need` is its room.

        `revision` is what `Attempt.revision` is to be; `more` goes to its environment.
        """
        table = self._table
        attempt = table.open_attempt(container_id, worker, now, revision=revision)
        container = table.containers[container_id]
        spec = container.spec
        array_size = table.jobs.size_of(container)
        order = AttemptOrder(
            attempt_id=attempt.id,
            container_id=container_id,
            image=spec.image,
            command=spec.command,
            entrypoint=spec.entrypoint,
            init=spec.init,
            api=spec.has_api,
            env=environment(container, attempt, array_size, more),
            cpu_millis=need.cpu_millis or SHARED_CPU_MILLIS,
            memory_bytes=need.memory_bytes,
            resident=bool(container.pinned_to),
            secrets=secrets_of(container),
        )
        grace_s, user = spec.grace_period_s, container.user
        self._pool.start(worker, order, need, now, grace_s=grace_s, user=user)
        return attempt
