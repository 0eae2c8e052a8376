"""The route that explains a container: the JSON of it, and how it is made."""

from __future__ import annotations

from decimal import Decimal

import msgspec
from aiohttp import web

from longshore.dispatcher.api.render.containers import json_response, rfc3339, usd, wait_answer
from longshore.dispatcher.api.schemas.containers import WaitAnswer
from longshore.dispatcher.api.validate.bodies import QueryString
from longshore.dispatcher.api.validate.ids import path_id
from longshore.dispatcher.explain.explanation import Claim, Explanation, Waiting
from longshore.dispatcher.explain.limits_left import LimitUsage
from longshore.dispatcher.scheduler.placement.feasibility_report import (
    CAUSES,
    NodeSummary,
    TypeFeasibility,
)
from longshore.dispatcher.service.containers import ContainerService
from longshore.dispatcher.state.history import HistoryEvent
from longshore.pool.holds import CreateHold


class TypeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One instance type; `hindrance` is what keeps one from being created now, null for nothing.

    `surcharge` is the share of its price that is put on top when types are chosen from, for what
    was lost of its use with instances that the cloud took back.
    """

    name: str
    price_usd_per_hour: Decimal
    surcharge: float
    preemptible: bool
    eligible: bool
    rejections: tuple[str, ...]
    hindrance: str | None


class FilterCountAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """How many instances one cause concerns, in a sentence `what`; `ids` names a few of them."""

    cause: str
    what: str
    count: int
    ids: tuple[str, ...]


class TallyAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All instances by what keeps them from taking the container.

    `exhausted` counts those that are full again, by each dimension in which they lack room.
    """

    total: int
    by_cause: tuple[FilterCountAnswer, ...]
    exhausted: dict[str, int]


class HoldAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Creates wait: of one type, of one quota group, or of all where both are null."""

    cause: str
    instance_type: str | None
    quota_group: str | None
    preemptible: bool | None
    since: str | None
    until: str | None
    message: str


class LimitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A limit by its setting; `used` is null where nobody knows.

    `adds` is what the container would add: to a limit of spending the price of a new instance of
    the cheapest type that would do, null where none would. `whose` is the project or the user that
    it is for, null for all. `blocking` says that it is what keeps the container waiting now.
    """

    name: str
    whose: str | None
    limit: float
    used: float | None
    adds: float | None
    reached: bool
    blocking: bool


class ClaimAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The place it has on what is not ready; `instance` is null while that is being created.

    `last_error` is what went wrong on it last, null for nothing.
    """

    instance: str | None
    instance_type: str
    since: str | None
    last_error: str | None


class EstimateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """When it starts, in seconds from now; null where nobody knows, and `basis` says why."""

    earliest_s: float | None
    latest_s: float | None
    basis: str


class WaitingAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say of a container that waits.

    `position` counts from 1 of `queue_length`; it is null for what is held back. `alike` wait for
    just the same. Of those before it `ahead_stuck` can never start while the configuration is what
    it is.
    """

    reason: WaitAnswer | None
    position: int | None
    ahead_stuck: int | None
    queue_length: int | None
    alike: int | None
    types: tuple[TypeAnswer, ...]
    instances: TallyAnswer
    holds: tuple[HoldAnswer, ...]
    limits: tuple[LimitAnswer, ...]
    claim: ClaimAnswer | None
    estimate: EstimateAnswer


class HistoryEventAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was decided or came to pass."""

    at: str | None
    kind: str
    message: str


class ExplanationAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Why a container is where it is; `waiting` is null for one that does not wait.

    Of what was decided before `recorded_since` only attempts are known.
    """

    id: str
    name: str
    state: str
    sentence: str
    waiting: WaitingAnswer | None
    history: tuple[HistoryEventAnswer, ...]
    recorded_since: str | None


class ExplainRoute:
    """Answers for `/v1/containers/{id}/explain`."""

    def __init__(self, containers: ContainerService) -> None:
        self._containers = containers

    async def show(self, request: web.Request) -> web.Response:
        """Answer why a container is where it is."""
        QueryString(request, ())
        found = await self._containers.explain(path_id(request, "container"))
        return json_response(explanation_answer(found))


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
        hindrance=verdict.hindrance or None,
    )


def _tally(instances: NodeSummary) -> TallyAnswer:
    return TallyAnswer(
        total=instances.total,
        by_cause=tuple(
            FilterCountAnswer(
                cause=fate.cause,
                what=CAUSES[fate.cause] + (f" ({fate.detail})" if fate.detail else ""),
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
