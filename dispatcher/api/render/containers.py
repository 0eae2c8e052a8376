"""From what the dispatcher knows to the JSON of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import assert_never

import msgspec
from msgspec import structs

from longshore.dispatcher.api.render.values import reason_answer, rfc3339, usd, wait_answer
from longshore.dispatcher.api.schemas.containers import (
    AttemptAnswer,
    ConstraintsAnswer,
    ContainerAnswer,
    DependencyAnswer,
    GivenAnswer,
    GpusAnswer,
    RetriesAnswer,
    SecretMark,
    SecretUseAnswer,
    UsageAnswer,
)
from longshore.dispatcher.domain.containers import (
    Attempt,
    Constraints,
    Container,
    ContainerSpec,
    Dependency,
)
from longshore.dispatcher.domain.queries import LISTED_ATTEMPTS
from longshore.dispatcher.explain.explanation import WaitStatus
from longshore.dispatcher.service.spent import ContainerSpent
from longshore.drivers.interface import Resources
from longshore.pool.model import SecretKind, SecretUse
from longshore.pool.usage import AttemptUsage

NO_STANDING = WaitStatus()
"""How a container stands that does not wait."""
SHOWN_ATTEMPTS = 100
"""How many of its attempts are answered with a container that is asked for alone, the latest."""
_DEPENDENCY_BYTES = 40


def container_answer(
    container: Container,
    standing: WaitStatus = NO_STANDING,
    *,
    most_attempts: int = SHOWN_ATTEMPTS,
    log_problem: str | msgspec.UnsetType | None = msgspec.UNSET,
    cost_of_tree_usd: Decimal | None = None,
) -> ContainerAnswer:
    """Return a container as it is answered, with why it waits, if it does.

    Of its attempts it has the last `most_attempts`; `container` may lack earlier ones itself.
    """
    spec = container.spec
    resources = spec.resources
    last = container.attempts[-1] if container.attempts else None
    return ContainerAnswer(
        id=container.id,
        name=spec.name,
        image=spec.image,
        entrypoint=spec.entrypoint,
        init=spec.init,
        command=spec.command,
        env={**dict(spec.env), **{name: SecretMark() for name, _ in spec.sealed_env}},
        secrets=tuple(map(_secret_use, spec.secrets)),
        cpus=cpus_answer(resources.cpu_millis),
        memory=resources.memory_bytes,
        disk=resources.disk_bytes,
        gpus=_gpus(spec),
        resources=dict(resources.custom),
        priority=container.priority,
        project=container.project,
        labels=dict(spec.labels),
        constraints=_constraints(spec.constraints),
        supervisor=spec.supervisor,
        api=spec.has_api,
        retries=_retries(spec),
        after=tuple(map(dependency_answer, spec.after)),
        not_before=rfc3339(spec.not_before),
        time_limit_s=spec.time_limit_s,
        grace_period_s=spec.grace_period_s,
        user=container.user,
        job=container.job_id or None,
        task=container.task or None,
        array_index=container.array_index,
        state=container.state.value,
        exit_code=container.exit_code,
        reason=reason_answer(container.reason),
        created_at=rfc3339(container.created_at),
        started_at=rfc3339(container.started_at),
        finished_at=rfc3339(container.finished_at),
        instance=last.instance_id if last else None,
        instance_type=last.instance_type if last else None,
        attempts=tuple(_attempt(attempt) for attempt in container.attempts[-most_attempts:]),
        attempt_count=last.number if last else 0,
        cost_usd=usd(container.cost_usd),
        waiting=standing.sentence or None,
        waiting_for=wait_answer(standing.reason),
        position=standing.position or None,
        queue_length=standing.of or None,
        doubt=standing.doubt or None,
        cancel_requested=container.cancel_requested,
        kill_at=rfc3339(standing.kill_at),
        log_problem=log_problem,
        cost_of_tree_usd=msgspec.UNSET if cost_of_tree_usd is None else usd(cost_of_tree_usd),
        parent=container.parent or msgspec.UNSET,
        for_instance=container.pinned_to or msgspec.UNSET,
    )


def costed_answer(answer: ContainerAnswer, spent: ContainerSpent | None) -> ContainerAnswer:
    """Return an answer with what was spent up to now; `spent` is None where nobody knows."""
    known: Mapping[str, Decimal] = {} if spent is None else spent.attempts_usd
    attempts = tuple(
        structs.replace(each, cost_usd=usd(known[each.id]) if each.id in known else None)
        for each in answer.attempts
    )
    total_usd = None if spent is None else usd(spent.total_usd)
    return structs.replace(answer, attempts=attempts, cost_so_far_usd=total_usd)


def _secret_use(use: SecretUse) -> SecretUseAnswer:
    match use.kind:
        case SecretKind.ENV:
            return SecretUseAnswer(name=use.secret, env=use.target)
        case SecretKind.FILE:
            return SecretUseAnswer(name=use.secret, file=use.target)
        case SecretKind.REGISTRY:
            return SecretUseAnswer(name=use.secret, registry=use.target)
        case unknown:
            assert_never(unknown)


def _constraints(wanted: Constraints) -> ConstraintsAnswer:
    ceiling = wanted.max_price_usd_per_hour
    return ConstraintsAnswer(
        labels=dict(wanted.labels),
        instance_types=wanted.instance_types,
        preemptible=wanted.preemptible.value,
        max_price_per_hour=None if ceiling is None else usd(ceiling),
    )


def container_bytes(container: Container) -> int:
    """Return about how long a container's answer in a listing is."""
    spec = container.spec
    attempts = min(len(container.attempts), LISTED_ATTEMPTS)
    total = sum(map(len, spec.command)) + 1000 * (1 + attempts)
    total += sum(len(name) + len(value) for name, value in spec.env)
    total += _DEPENDENCY_BYTES * (len(spec.sealed_env) + 3 * len(spec.secrets))
    return total + sum(_DEPENDENCY_BYTES + len(each.of) for each in spec.after)


def cpus_answer(cpu_millis: int) -> float:
    """Return thousandths of a cpu as cpus, a whole number where it is one."""
    return cpu_millis // 1000 if cpu_millis % 1000 == 0 else cpu_millis / 1000


def _gpus(spec: ContainerSpec) -> int | GpusAnswer:
    wanted = spec.constraints
    if not wanted.gpu_model and not wanted.gpu_memory_bytes:
        return spec.resources.gpus
    return GpusAnswer(
        count=spec.resources.gpus, memory=wanted.gpu_memory_bytes, model=wanted.gpu_model
    )


def _retries(spec: ContainerSpec) -> RetriesAnswer:
    wanted = spec.retries
    return RetriesAnswer(
        max=wanted.most,
        on=wanted.on,
        exit_codes=wanted.exit_codes,
        delay_s=wanted.delay_s,
        first_delay_s=wanted.first_delay_s,
        lost=spec.retry_lost,
    )


def given_answer(given: Resources) -> GivenAnswer:
    """Return what an attempt was given as it is answered."""
    return GivenAnswer(
        cpus=cpus_answer(given.cpu_millis),
        memory=given.memory_bytes,
        disk=given.disk_bytes,
        gpus=given.gpus,
        resources=dict(given.custom),
    )


def dependency_answer(dependency: Dependency, own: str = "") -> DependencyAnswer:
    """Return what is waited for as it is answered, without `own` where its name begins so."""
    return DependencyAnswer(
        of=dependency.of.removeprefix(own), on=dependency.on.value, each=dependency.each
    )


def _usage(used: AttemptUsage | None) -> UsageAnswer | None:
    return None if used is None else UsageAnswer(**asdict(used))


def _attempt(attempt: Attempt) -> AttemptAnswer:
    return AttemptAnswer(
        id=attempt.id,
        number=attempt.number,
        instance=attempt.instance_id,
        instance_type=attempt.instance_type,
        price_per_hour=usd(attempt.price_usd_per_hour),
        outcome=attempt.outcome.value if attempt.outcome else None,
        exit_code=attempt.exit_code,
        reason=reason_answer(attempt.reason),
        created_at=rfc3339(attempt.created_at),
        started_at=rfc3339(attempt.started_at),
        finished_at=rfc3339(attempt.finished_at),
        stdout_bytes=attempt.stdout_bytes,
        stderr_bytes=attempt.stderr_bytes,
        log_complete=attempt.log_complete,
        given=None if attempt.resources is None else given_answer(attempt.resources),
        pulling_since=rfc3339(attempt.pulling_since),
        pulled_at=rfc3339(attempt.pulled_at),
        image_digest=attempt.image_digest or None,
        warning=attempt.warning or None,
        usage=_usage(attempt.usage),
        revision=attempt.revision or msgspec.UNSET,
    )
