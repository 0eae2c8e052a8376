"""The worker's state machine: one table, and the only function that reads it.

Source of the rows: the worker pool of Arvados' dispatcher, as described in the design's semantics;
but for REBOOTED: what a boot sets up (drivers, disks) is proven for that boot only, and a worker
that has booted anew is as one that was found and not probed yet; and for STOPPED and FAILED, which
some clouds tell, so that nobody need wait for a timeout.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from longshore.drivers.errors import BugError
from longshore.pool.model import WorkerState


class Trigger(Enum):
    """What can happen to a worker."""

    CREATED = "its create call returned"
    READY_EMPTY = "its probes succeeded and nothing runs there"
    READY_BUSY = "its probes succeeded and something runs there"
    REBOOTED = "it has booted anew, so that its boot is to be probed again"
    PLACED = "an attempt was placed on it"
    PLACED_RESIDENT = "an attempt that belongs to it was placed on it"
    LAST_EXIT = "its last attempt's exit is known"
    BOOT_TIMEOUT = "no successful probe within boot_timeout"
    PROBE_TIMEOUT = "no contact for probe_timeout"
    STOPPED = "the cloud says that it is stopped"
    FAILED = "the cloud says that it is failed"
    IDLE_TIMEOUT = "idle for idle_timeout and not wanted"
    UNWANTED = "idle, and its place in the quota is wanted for another type"
    DRAINED = "draining, and nothing runs there"
    KILLED = "an admin ended it"
    LISTED_AGAIN = "it is listed again, and was being shut down"
    GONE = "the cloud no longer lists it"


class Removed(Enum):
    """The end of a worker's life: the pool forgets it."""

    REMOVED = "removed"


REMOVED: Final = Removed.REMOVED

_U, _B, _I, _R, _S = (
    WorkerState.UNKNOWN,
    WorkerState.BOOTING,
    WorkerState.IDLE,
    WorkerState.RUNNING,
    WorkerState.SHUTDOWN,
)

TABLE: Final[dict[WorkerState, dict[Trigger, WorkerState | Removed]]] = {
    _U: {
        Trigger.CREATED: _B,
        Trigger.READY_EMPTY: _I,
        Trigger.READY_BUSY: _R,
        Trigger.BOOT_TIMEOUT: _S,
        Trigger.STOPPED: _S,
        Trigger.FAILED: _S,
        Trigger.DRAINED: _S,
        Trigger.KILLED: _S,
        Trigger.LISTED_AGAIN: _S,
        Trigger.GONE: REMOVED,
    },
    _B: {
        Trigger.READY_EMPTY: _I,
        Trigger.READY_BUSY: _R,
        Trigger.BOOT_TIMEOUT: _S,
        Trigger.STOPPED: _S,
        Trigger.FAILED: _S,
        Trigger.DRAINED: _S,
        Trigger.KILLED: _S,
        Trigger.GONE: REMOVED,
    },
    _I: {
        Trigger.PLACED: _R,
        Trigger.PLACED_RESIDENT: _I,
        Trigger.READY_EMPTY: _I,
        Trigger.READY_BUSY: _R,
        Trigger.REBOOTED: _U,
        Trigger.PROBE_TIMEOUT: _S,
        Trigger.STOPPED: _S,
        Trigger.IDLE_TIMEOUT: _S,
        Trigger.UNWANTED: _S,
        Trigger.DRAINED: _S,
        Trigger.KILLED: _S,
        Trigger.GONE: REMOVED,
    },
    _R: {
        Trigger.PLACED: _R,
        Trigger.PLACED_RESIDENT: _R,
        Trigger.READY_BUSY: _R,
        Trigger.REBOOTED: _U,
        Trigger.LAST_EXIT: _I,
        Trigger.PROBE_TIMEOUT: _S,
        Trigger.STOPPED: _S,
        Trigger.DRAINED: _S,
        Trigger.KILLED: _S,
        Trigger.GONE: REMOVED,
    },
    _S: {
        Trigger.CREATED: _S,
        Trigger.GONE: REMOVED,
    },
}


def next_state(state: WorkerState, trigger: Trigger) -> WorkerState | Removed:
    """Return the state that follows; an illegal move raises `BugError` and nothing has changed."""
    try:
        return TABLE[state][trigger]
    except KeyError:
        raise BugError(f"a worker that is {state.value} cannot see: {trigger.value}") from None
