"""From what the dispatcher knows to the JSON of the API."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
from aiohttp import web

from longshore.dispatcher.api.schemas.containers import (
    AttemptAnswer,
    ConstraintsAnswer,
    ContainerAnswer,
    DependencyAnswer,
    GivenAnswer,
    GpusAnswer,
    ReasonAnswer,
    RetriesAnswer,
    WaitAnswer,
)
from longshore.dispatcher.api.schemas.instances import (
    BehaviorNoteAnswer,
    InstanceAnswer,
    InstanceList,
    LeakAnswer,
    LeakList,
    MachineAnswer,
    StrayAnswer,
    StrayList,
)
from longshore.dispatcher.domain.containers import (
    Attempt,
    Container,
    ContainerSpec,
    Dependency,
    Reason,
    WaitReason,
)
from longshore.dispatcher.domain.queries import LISTED_ATTEMPTS
from longshore.dispatcher.domain.views import InstanceReport, InstanceView, LeakReport, StrayView
from longshore.dispatcher.explain.explanation import WaitStatus
from longshore.drivers.interface import Resources
from longshore.pool.leaks import Leak
from longshore.pool.model import BehaviorNote

_SMALLEST_USD = Decimal("1e-8")
_ENCODER = msgspec.json.Encoder(decimal_format="number")
NO_STANDING = WaitStatus()
"""How a container stands that does not wait."""
SHOWN_ATTEMPTS = 100
"""How many of its attempts are answered with a container that is asked for alone, the latest."""
_LAST_SECOND = 253_402_300_799.0
_DEPENDENCY_BYTES = 40


def usd(amount: Decimal) -> Decimal:
    """Return an amount of money as it is answered: with up to eight decimals, and no more zeros.

    A second of the cheapest instance costs a millionth of a dollar: eight tell a hundredth of that.
    """
    rounded = amount.quantize(_SMALLEST_USD).normalize()
    # Else a hundred dollars would be 1E+2.
    return rounded.quantize(Decimal(1)) if rounded == rounded.to_integral_value() else rounded


def encode(value: Any) -> bytes:
    """Return `value` as JSON, decimals as numbers."""
    return _ENCODER.encode(value)


def json_response(
    value: Any, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """Return an answer that carries `value` as JSON."""
    return web.Response(
        body=encode(value), status=status, content_type="application/json", headers=headers
    )


def rfc3339(at: float | None) -> str | None:
    """Return seconds since the epoch as RFC 3339 in UTC with milliseconds.

    None and 0.0 (never) give None, as do times that no calendar has: an instance's clock may lie.
    """
    if not at or not math.isfinite(at) or not 0 < at <= _LAST_SECOND:
        return None
    moment = datetime.fromtimestamp(math.floor(at * 1000) / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def container_answer(
    container: Container,
    standing: WaitStatus = NO_STANDING,
    *,
    most_attempts: int = SHOWN_ATTEMPTS,
    log_problem: str | msgspec.UnsetType | None = msgspec.UNSET,
) -> ContainerAnswer:
    """Return a container as it is answered, with why it waits, if it does.

    Of its attempts it has the last `most_attempts`; `container` may lack earlier ones itself.
    """
    ceiling = container.spec.constraints.max_price_usd_per_hour
    spec = container.spec
    resources, constraints = spec.resources, spec.constraints
    last = container.attempts[-1] if container.attempts else None
    return ContainerAnswer(
        id=container.id,
        name=spec.name,
        image=spec.image,
        entrypoint=spec.entrypoint,
        init=spec.init,
        command=spec.command,
        env=dict(spec.env),
        cpus=_cpus(resources.cpu_millis),
        memory=resources.memory_bytes,
        disk=resources.disk_bytes,
        gpus=_gpus(spec),
        resources=dict(resources.custom),
        priority=container.priority,
        project=container.project,
        labels=dict(spec.labels),
        constraints=ConstraintsAnswer(
            labels=dict(constraints.labels),
            instance_types=constraints.instance_types,
            preemptible=constraints.preemptible.value,
            max_price_per_hour=None if ceiling is None else usd(ceiling),
        ),
        supervisor=spec.supervisor,
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
        for_instance=container.pinned_to or msgspec.UNSET,
    )


def _behavior_note(note: BehaviorNote | None) -> BehaviorNoteAnswer | None:
    if note is None:
        return None
    return BehaviorNoteAnswer(
        reason=note.reason,
        by=note.by or None,
        at=str(rfc3339(note.at)),
        until=rfc3339(note.until),
    )


def instance_answer(view: InstanceView) -> InstanceAnswer:
    """Return an instance as it is answered."""
    return InstanceAnswer(
        id=view.id,
        address=view.address,
        state=view.state,
        idle_behavior=view.idle_behavior,
        instance_type=view.instance_type,
        provider_type=view.provider_type,
        price_usd_per_hour=usd(view.price_usd_per_hour),
        running=view.running,
        last_container=view.last_container,
        created_at=rfc3339(view.created_at),
        last_busy_at=rfc3339(view.last_busy_at),
        last_contact_at=rfc3339(view.last_contact_at),
        broken=view.broken,
        last_error=view.last_error,
        taken_back_at=view.taken_back_at or None,
        missing_since=rfc3339(view.missing_since),
        cloud_says=view.cloud_says or None,
        gone_at=rfc3339(view.gone_at),
        advice=view.advice or None,
        machine=(
            MachineAnswer(cpus=view.machine.cpus, memory=view.machine.memory_bytes)
            if view.machine is not None
            else None
        ),
        shortfall=view.shortfall,
        idle_behavior_note=_behavior_note(view.note),
    )


def instance_list(report: InstanceReport) -> InstanceList:
    """Return a page of instances as it is answered."""
    return InstanceList(
        items=[instance_answer(each) for each in report.instances],
        listed_at=rfc3339(report.listed_at),
        complete=report.complete,
        next_cursor=report.next_cursor,
    )


def leak_list(report: LeakReport) -> LeakList:
    """Return what is billed and not wanted as it is answered."""
    return LeakList(
        store_problem=report.store_problem or None,
        leftovers_problem=report.leftovers_problem or None,
        items=[_leak(each) for each in report.leaks],
        listed_at=rfc3339(report.listed_at),
        complete=report.complete,
        next_cursor=report.next_cursor,
    )


def _leak(leak: Leak) -> LeakAnswer:
    return LeakAnswer(
        instance=leak.instance_id or None,
        launch=leak.launch_token or None,
        instance_type=leak.type_name,
        price_usd_per_hour=usd(leak.price_usd_per_hour) if leak.price_usd_per_hour else None,
        kind=leak.kind.value,
        since=rfc3339(leak.since),
        cost_usd=usd(leak.cost_usd),
        why=leak.why,
        remedy=leak.remedy,
        resource=leak.resource_id or None,
    )


def stray_list(kept: Sequence[StrayView], next_cursor: str | None = None) -> StrayList:
    """Return strays that are kept as they are answered."""
    return StrayList(
        items=[
            StrayAnswer(
                instance=each.instance,
                attempt=each.attempt,
                container=each.container or None,
                store=each.store,
                found_at=rfc3339(each.found_at),
                fate=each.fate,
            )
            for each in kept
        ],
        next_cursor=next_cursor,
    )


def container_bytes(container: Container) -> int:
    """Return about how long a container's answer in a listing is."""
    spec = container.spec
    attempts = min(len(container.attempts), LISTED_ATTEMPTS)
    total = sum(map(len, spec.command)) + 1000 * (1 + attempts)
    total += sum(len(name) + len(value) for name, value in spec.env)
    return total + sum(_DEPENDENCY_BYTES + len(each.of) for each in spec.after)


def how_many_fit(sizes: Iterable[int], page_bytes: int) -> int:
    """Return how many answers of `sizes`, from the first, make one of about `page_bytes`.

    At least one: a page that makes no progress would be asked for for ever.
    """
    total = number = 0
    for size in sizes:
        total += size
        if total > page_bytes:
            return max(number, 1)
        number += 1
    return number


def _cpus(cpu_millis: int) -> float:
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


def _given(given: Resources | None) -> GivenAnswer | None:
    if given is None:
        return None
    return GivenAnswer(
        cpus=_cpus(given.cpu_millis),
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


def reason_answer(reason: Reason | None) -> ReasonAnswer | None:
    """Return a reason as it is answered, None for none."""
    return None if reason is None else ReasonAnswer(code=reason.code, message=reason.message)


def wait_answer(reason: WaitReason | None) -> WaitAnswer | None:
    """Return why a container waits as it is answered, None for nothing."""
    if reason is None:
        return None
    return WaitAnswer(
        code=reason.code,
        message=reason.message,
        limit=reason.limit or None,
        behind=reason.behind or None,
        behind_code=reason.behind_code or None,
        until=rfc3339(reason.until),
        never=reason.is_final,
    )


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
        given=_given(attempt.resources),
        pulling_since=rfc3339(attempt.pulling_since),
        pulled_at=rfc3339(attempt.pulled_at),
        image_digest=attempt.image_digest or None,
        warning=attempt.warning or None,
        revision=attempt.revision or msgspec.UNSET,
    )
