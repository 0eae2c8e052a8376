"""What must always hold of the ledger; tests look after every event."""

from __future__ import annotations

from longshore.dispatcher.ledger.ledger import Ledger
from longshore.dispatcher.model import Container, ContainerState
from longshore.drivers.errors import BugError


def check(ledger: Ledger) -> None:
    """Raise `BugError` when an invariant of the ledger does not hold."""
    for container in ledger.containers.values():
        _check_container(ledger, container)
    for container_id in ledger.holdbacks.ids():
        if container_id not in ledger.containers:
            raise BugError(f"{container_id} is held back and is not in memory")
    for container_id in sorted(ledger.waiting_since.keys() - ledger.containers.keys()):
        raise BugError(f"{container_id} waits for a start and is not in memory")
    ledger.spend.check(ledger.containers.values())
    for attempt_id, container_id in ledger.open_attempts.items():
        if container_id not in ledger.containers:
            raise BugError(f"{attempt_id} is open, its container is not in memory")
    placed = (ledger.containers[each] for each in ledger.open_attempts.values())
    if ledger.supervisors_placed != sum(each.is_supervisor for each in placed):
        raise BugError(f"{ledger.supervisors_placed} supervisors are not those that are placed")


def _check_container(ledger: Ledger, container: Container) -> None:
    """Check where one container waits, and that it has no claim while it is held back."""
    if container.state.final:
        raise BugError(f"{container.id} has ended and is still in memory")
    if container.has_open_attempt:
        should_wait = False
    elif container.priority == 0:
        should_wait = False
        if container.state is ContainerState.LOCKED:
            raise BugError(f"{container.id} is held back and keeps its claim")
    else:
        should_wait = container.id not in ledger.holdbacks
    if should_wait != (container.id in ledger.queue):
        raise BugError(f"{container.id} waits and should not, or the other way round")
