"""Listing what waits in the order in which it is next; from the engine's memory.

A cursor is a place in the order (priority, then rank, then id), and no count: what comes or goes
meanwhile moves no other, and the one at the place need not wait any more. Who changes its priority
between two pages may be on both, or on none. So many are looked at for a page, whatever a filter
leaves of them: a page may be short, or empty, and have a next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from longshore.dispatcher.domain.containers import Container, ContainerState
from longshore.dispatcher.domain.cursors import decode_cursor, encode_cursor, not_our_cursor
from longshore.dispatcher.domain.queries import ContainerFilter
from longshore.dispatcher.engine.view import EngineView
from longshore.dispatcher.state.queue import Order
from longshore.drivers.errors import InvalidRequest

LOOKED_AT_MOST = 5000
"""How many of the queue are looked at for one page."""
_WORD = "queue"
_IN_QUEUE = (ContainerState.QUEUED, ContainerState.LOCKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """The ids of some that wait, the next first; `next_cursor` is None on the last page."""

    ids: tuple[str, ...]
    next_cursor: str | None


def expect_of_queue(which: ContainerFilter) -> None:
    """Raise `InvalidRequest` with all that a filter asks for which no queue can tell."""
    problems = []
    if any(each not in _IN_QUEUE for each in which.states):
        problems.append(("state", "in order of the queue is queued or locked: nothing else waits"))
    if which.instance_id:
        problems.append(("instance", "says where one ran: leave it out in order of the queue"))
    if which.parent:
        problems.append(("parent", "is not for the order of the queue: leave one of them out"))
    if problems:
        raise InvalidRequest(problems)


def queue_page(view: EngineView, which: ContainerFilter, *, cursor: str, limit: int) -> QueuePage:
    """Return up to `limit` of those that wait and that a filter leaves, the next first.

    Raises `InvalidRequest` for a cursor that is not ours.
    """
    entries = view.queue_after(_place_in(cursor) if cursor else None, LOOKED_AT_MOST + 1)
    ids: list[str] = []
    for number, (order, container_id) in enumerate(entries[:LOOKED_AT_MOST], 1):
        container = view.container(container_id)
        if container is not None and _is_wanted(container, which):
            ids.append(container_id)
        if len(ids) == limit or number == LOOKED_AT_MOST:
            more = len(entries) > number
            place = f"{order[0]} {order[1]} {container_id}"
            return QueuePage(
                ids=tuple(ids), next_cursor=encode_cursor(_WORD, place) if more else None
            )
    return QueuePage(ids=tuple(ids), next_cursor=None)


def _place_in(cursor: str) -> tuple[Order, str]:
    priority, _, rest = decode_cursor(_WORD, cursor).partition(" ")
    rank, _, container_id = rest.partition(" ")
    try:
        return (int(priority), int(rank)), container_id
    except ValueError:
        raise not_our_cursor() from None


def _is_wanted(container: Container, which: ContainerFilter) -> bool:
    return (
        (which.projects is None or container.project in which.projects)
        and which.project in ("", container.project)
        and which.user in ("", container.user)
        and which.name in ("", container.spec.name)
        and (not which.states or container.state in which.states)
        and _is_of_job(container, which)
    )


def _is_of_job(container: Container, which: ContainerFilter) -> bool:
    return (
        which.job_id in ("", container.job_id)
        and which.task in ("", container.task)
        and which.array_index in (None, container.array_index)
    )
