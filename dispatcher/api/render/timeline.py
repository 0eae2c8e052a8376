"""From a timeline to the JSON of the API.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from longshore.dispatcher.api.render.values import rfc3339, usd
from longshore.dispatcher.api.schemas.timeline import (
    TimelineAnswer,
    TimelineAttemptAnswer,
    TimelineInstanceAnswer,
    TimelineStateAnswer,
)
from longshore.dispatcher.cost.money import usd_per_hour
from longshore.dispatcher.domain.ledger import CostOutcome, Interval
from longshore.dispatcher.domain.timeline import TimelineInstance
from longshore.dispatcher.service.timeline import Timeline

_OUTCOMES: Final[Mapping[CostOutcome, str | None]] = {
    CostOutcome.USEFUL: "succeeded",
    CostOutcome.LOST_FAILED: "failed",
    CostOutcome.LOST_LOST: "lost",
    CostOutcome.LOST_PREEMPTED: "preempted",
    CostOutcome.LOST_CANCELLED: "cancelled",
}


def timeline_answer(found: Timeline) -> TimelineAnswer:
    """Return a timeline as it is answered."""
    return TimelineAnswer(
        since=_moment(found.window.from_ms),
        until=_moment(found.window.until_ms),
        items=tuple(_instance(each) for each in found.page.items),
        next_cursor=found.page.next_cursor,
    )


def _instance(one: TimelineInstance) -> TimelineInstanceAnswer:
    bill = one.bill
    return TimelineInstanceAnswer(
        id=bill.instance_id,
        instance_type=bill.type_name,
        provider_type=bill.provider_type,
        preemptible=bill.preemptible,
        zone=bill.billed.zone or None,
        price_usd_per_hour=usd(usd_per_hour(bill.nusd_per_hour)),
        created_at=_moment(bill.created_ms),
        ready_at=_moment(bill.ready_ms),
        gone_at=_moment(bill.gone_ms),
        bought_for=bill.payer.job_name or bill.payer.user or bill.payer.project or None,
        states=tuple(_state(each) for each in one.states),
        states_left_out=one.states_left_out,
        attempts=tuple(_attempt(each) for each in one.attempts),
        attempts_left_out=one.attempts_left_out,
    )


def _state(interval: Interval) -> TimelineStateAnswer:
    return TimelineStateAnswer(
        state=interval.state.value,
        since=_moment(interval.from_ms),
        until=_moment(interval.until_ms),
    )


def _attempt(interval: Interval) -> TimelineAttemptAnswer:
    account = interval.account
    return TimelineAttemptAnswer(
        attempt=interval.holder,
        container=account.container_id or None,
        name=account.job_name,
        job=account.job_id or None,
        task=account.task or None,
        array_index=account.array_index,
        user=account.user,
        project=account.project,
        share=round(float(interval.share), 6),
        since=_moment(interval.from_ms),
        until=_moment(interval.until_ms),
        outcome=_OUTCOMES.get(interval.outcome),
        cause=interval.cause or None,
    )


def _moment(at_ms: int | None) -> str | None:
    return None if at_ms is None else rfc3339(at_ms / 1000)
