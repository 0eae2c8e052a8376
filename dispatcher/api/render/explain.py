"""From an explanation to the JSON of the API."""

from __future__ import annotations

import msgspec

from longshore.dispatcher.api.render.values import rfc3339, usd, wait_answer
from longshore.dispatcher.api.schemas.explain import (
    ClaimAnswer,
    EstimateAnswer,
    ExplanationAnswer,
    FilterCountAnswer,
    HistoryEventAnswer,
    HoldAnswer,
    HoldsAnswer,
    LimitAnswer,
    TallyAnswer,
    TypeAnswer,
    WaitingAnswer,
)
from longshore.dispatcher.explain.explanation import Claim, Explanation, Waiting
from longshore.dispatcher.explain.limit_usage import LimitUsage
from longshore.dispatcher.scheduler.placement.feasibility_report import (
    NodeSummary,
    TypeFeasibility,
    said_of,
)
from longshore.dispatcher.service.overview import Holds
from longshore.dispatcher.state.history import HistoryEvent
from longshore.pool.holds import CreateHold


def explanation_answer(found: Explanation) -> ExplanationAnswer:
    """Return an explanation as it is answered."""
    return ExplanationAnswer(
        id=found.container.id,
        name=found.container.spec.name,
        state=found.container.state.value,
        sentence=found.sentence,
        waiting=_waiting(found.waiting) if found.waiting is not None else None,
        history=tuple(_happening(each) for each in found.history),
        recorded_since=rfc3339(found.recorded_since),
    )


def holds_answer(found: Holds) -> HoldsAnswer:
    """Return what keeps instances from being created as it is answered."""
    limits = (
        msgspec.structs.replace(_limit(each), reached=each.is_used_up) for each in found.limits
    )
    return HoldsAnswer(holds=tuple(_hold(each) for each in found.holds), limits=tuple(limits))


def _waiting(waiting: Waiting) -> WaitingAnswer:
    place, when = waiting.position, waiting.estimate
    return WaitingAnswer(
        reason=wait_answer(waiting.reason),
        position=place.number if place else None,
        ahead_stuck=place.stuck if place else None,
        queue_length=place.of if place else None,
        alike=place.alike if place else None,
        types=tuple(_type(each) for each in waiting.types),
        instances=_tally(waiting.instances),
        holds=tuple(_hold(each) for each in waiting.holds),
        limits=tuple(_limit(each) for each in waiting.limits),
        claim=_claim(waiting.claim) if waiting.claim is not None else None,
        estimate=EstimateAnswer(
            earliest_s=when.earliest_s, latest_s=when.latest_s, basis=when.basis
        ),
    )


def _type(verdict: TypeFeasibility) -> TypeAnswer:
    return TypeAnswer(
        name=verdict.name,
        price_usd_per_hour=usd(verdict.price_usd_per_hour),
        surcharge=float(verdict.waste),
        preemptible=verdict.preemptible,
        eligible=verdict.eligible,
        rejections=verdict.reasons_against,
        blocked_by=verdict.blocked_by or None,
    )


def _tally(instances: NodeSummary) -> TallyAnswer:
    return TallyAnswer(
        total=instances.total,
        by_cause=tuple(
            FilterCountAnswer(
                cause=fate.cause,
                what=said_of(fate.cause, fate.count) + (f" ({fate.detail})" if fate.detail else ""),
                count=fate.count,
                ids=fate.ids,
            )
            for fate in instances.fates
        ),
        exhausted=dict(instances.exhausted),
    )


def _hold(hold: CreateHold) -> HoldAnswer:
    return HoldAnswer(
        cause=hold.cause.value,
        instance_type=hold.scope.type_name,
        quota_group=hold.scope.group,
        preemptible=hold.scope.preemptible,
        since=rfc3339(hold.since),
        until=rfc3339(hold.until),
        message=hold.reason,
    )


def _limit(limit: LimitUsage) -> LimitAnswer:
    return LimitAnswer(
        name=limit.name,
        whose=limit.whose or None,
        limit=limit.limit,
        used=limit.used,
        adds=limit.adds,
        reached=limit.is_reached,
        blocking=limit.blocking,
    )


def _claim(claim: Claim) -> ClaimAnswer:
    return ClaimAnswer(
        instance=claim.instance_id or None,
        instance_type=claim.type_name,
        since=rfc3339(claim.since),
        last_error=claim.last_error or None,
    )


def _happening(each: HistoryEvent) -> HistoryEventAnswer:
    return HistoryEventAnswer(at=rfc3339(each.at), kind=each.kind, message=each.message)
