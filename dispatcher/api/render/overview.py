"""From what goes on to the JSON of the API.

Stands alone: each resource has a file of its own in each role.
"""

from __future__ import annotations

from longshore.dispatcher.api.render.values import rfc3339, usd
from longshore.dispatcher.api.schemas.overview import (
    ContainerCountsAnswer,
    DecisionAnswer,
    DecisionList,
    EndedCountsAnswer,
    InstanceCountAnswer,
    InstancesOverviewAnswer,
    OverviewAnswer,
    WaitGroupAnswer,
)
from longshore.dispatcher.domain.containers import ContainerState
from longshore.dispatcher.explain.overview import InstancesOverview, Overview, WaitGroup
from longshore.dispatcher.service.overview import DecisionPage


def overview_answer(found: Overview, at: float) -> OverviewAnswer:
    """Return what goes on as it is answered; `at` is now, in seconds since the epoch."""
    return OverviewAnswer(
        at=rfc3339(at),
        containers=ContainerCountsAnswer(
            queued=found.states.get(ContainerState.QUEUED, 0),
            locked=found.states.get(ContainerState.LOCKED, 0),
            running=found.states.get(ContainerState.RUNNING, 0),
        ),
        ended=EndedCountsAnswer(
            succeeded=found.ended.get(ContainerState.SUCCEEDED, 0),
            failed=found.ended.get(ContainerState.FAILED, 0),
            cancelled=found.ended.get(ContainerState.CANCELLED, 0),
            since=rfc3339(found.ended_since),
        ),
        waiting_since=rfc3339(found.waiting_since),
        waiting=tuple(_group(each) for each in found.waiting),
        instances=None if found.instances is None else _instances(found.instances),
    )


def _group(group: WaitGroup) -> WaitGroupAnswer:
    reason = group.reason
    return WaitGroupAnswer(
        code=reason.code,
        message=reason.message,
        count=group.number,
        sample=group.sample or None,
        limit=reason.limit or None,
        until=rfc3339(reason.until),
        never=reason.is_final,
    )


def _instances(found: InstancesOverview) -> InstancesOverviewAnswer:
    return InstancesOverviewAnswer(
        counts=tuple(
            InstanceCountAnswer(state=state, idle_behavior=behavior, count=number)
            for (state, behavior), number in sorted(found.numbers.items())
        ),
        creating=found.creating,
        price_usd_per_hour=usd(found.price_usd_per_hour),
    )


def decision_list(page: DecisionPage) -> DecisionList:
    """Return a page of decisions as it is answered."""
    items = tuple(
        DecisionAnswer(
            number=each.number,
            at=rfc3339(each.at),
            kind=each.kind.value,
            message=each.message,
            instance_type=each.instance_type or None,
            instance=each.instance_id or None,
            container=each.container_id or None,
        )
        for each in page.items
    )
    return DecisionList(
        items=items, recorded_since=rfc3339(page.since), next_cursor=page.next_cursor
    )
