"""The worker's transition table: every legal move by name, every other one refused."""

from __future__ import annotations

import pytest

from longshore.drivers.errors import BugError
from longshore.pool.model import WorkerState
from longshore.pool.transitions import REMOVED, TABLE, Trigger, next_state

UNKNOWN, BOOTING, IDLE, RUNNING, SHUTDOWN = (
    WorkerState.UNKNOWN,
    WorkerState.BOOTING,
    WorkerState.IDLE,
    WorkerState.RUNNING,
    WorkerState.SHUTDOWN,
)

ROWS = [
    (UNKNOWN, Trigger.CREATED, BOOTING),
    (UNKNOWN, Trigger.READY_EMPTY, IDLE),
    (UNKNOWN, Trigger.READY_BUSY, RUNNING),
    (BOOTING, Trigger.READY_EMPTY, IDLE),
    (BOOTING, Trigger.READY_BUSY, RUNNING),
    (UNKNOWN, Trigger.BOOT_TIMEOUT, SHUTDOWN),
    (BOOTING, Trigger.BOOT_TIMEOUT, SHUTDOWN),
    (IDLE, Trigger.PLACED, RUNNING),
    (IDLE, Trigger.PLACED_RESIDENT, IDLE),
    (RUNNING, Trigger.PLACED_RESIDENT, RUNNING),
    (RUNNING, Trigger.LAST_EXIT, IDLE),
    (IDLE, Trigger.REBOOTED, UNKNOWN),
    (RUNNING, Trigger.REBOOTED, UNKNOWN),
    (IDLE, Trigger.PROBE_TIMEOUT, SHUTDOWN),
    (RUNNING, Trigger.PROBE_TIMEOUT, SHUTDOWN),
    (IDLE, Trigger.IDLE_TIMEOUT, SHUTDOWN),
    (BOOTING, Trigger.DRAINED, SHUTDOWN),
    (IDLE, Trigger.DRAINED, SHUTDOWN),
    (RUNNING, Trigger.DRAINED, SHUTDOWN),
    (UNKNOWN, Trigger.DRAINED, SHUTDOWN),
    (UNKNOWN, Trigger.LISTED_AGAIN, SHUTDOWN),
]


@pytest.mark.parametrize(("state", "trigger", "expected"), ROWS)
def test_rows_of_the_semantics(state: WorkerState, trigger: Trigger, expected: WorkerState) -> None:
    assert next_state(state, trigger) is expected


@pytest.mark.parametrize("state", list(WorkerState))
def test_any_worker_may_be_gone(state: WorkerState) -> None:
    assert next_state(state, Trigger.GONE) is REMOVED


@pytest.mark.parametrize("state", [UNKNOWN, BOOTING, IDLE, RUNNING])
def test_any_worker_that_is_not_ending_may_be_killed(state: WorkerState) -> None:
    assert next_state(state, Trigger.KILLED) is SHUTDOWN


def test_every_other_move_raises() -> None:
    refused = [
        (state, trigger)
        for state in WorkerState
        for trigger in Trigger
        if trigger not in TABLE[state]
    ]
    assert (BOOTING, Trigger.PLACED) in refused
    assert (SHUTDOWN, Trigger.PLACED) in refused
    assert (BOOTING, Trigger.PLACED_RESIDENT) in refused
    assert (SHUTDOWN, Trigger.PLACED_RESIDENT) in refused
    assert (IDLE, Trigger.LAST_EXIT) in refused
    for state, trigger in refused:
        with pytest.raises(BugError):
            next_state(state, trigger)


def test_nothing_leaves_shutdown_but_removal() -> None:
    assert set(TABLE[SHUTDOWN].values()) == {SHUTDOWN, REMOVED}
