"""From what the dispatcher knows of instances, leaks and strays to the JSON of the API."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from longshore.dispatcher.api.render.containers import cpus_answer
from longshore.dispatcher.api.render.values import rfc3339, usd
from longshore.dispatcher.api.schemas.instances import (
    BehaviorNoteAnswer,
    InstanceAnswer,
    InstanceList,
    LeakAnswer,
    LeakList,
    MachineAnswer,
    PlaceAnswer,
    RoomAnswer,
    StrayAnswer,
    StrayList,
)
from longshore.dispatcher.domain.views import InstanceReport, InstanceView, LeakReport, StrayView
from longshore.pool.leaks import Leak
from longshore.pool.model import BehaviorNote


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


def packed_answer(view: InstanceView) -> InstanceAnswer:
    """Return an instance as it is answered to who asks for it: with who has a place there."""
    has = view.allocatable
    room = None
    if has is not None:
        room = RoomAnswer(
            cpus=cpus_answer(has.cpu_millis),
            memory=has.memory_bytes,
            disk=has.disk_bytes,
            gpus=has.gpus,
        )
    places = tuple(
        PlaceAnswer(
            container=each.container,
            cpus=cpus_answer(each.resources.cpu_millis),
            memory=each.resources.memory_bytes,
            gpus=each.resources.gpus,
            share=each.share,
        )
        for each in view.places
    )
    return msgspec.structs.replace(instance_answer(view), room=room, places=places)


def instance_list(report: InstanceReport) -> InstanceList:
    """Return a page of instances as it is answered."""
    return InstanceList(
        items=[packed_answer(each) for each in report.instances],
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
        uncertain_usd=usd(leak.uncertain_usd),
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
