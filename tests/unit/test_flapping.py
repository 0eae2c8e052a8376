"""Sessions that are lost again and again soon after they were attached: ever fewer handshakes."""

from __future__ import annotations

import pytest

from longshore.pool.messages import Probe, SessionLost
from longshore.pool.model import PoolSettings
from longshore.pool.timers import TimerKind
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container


def running(pool: PoolSettings | None = None) -> Rig:
    """Return a rig whose container runs, with a session that has lasted."""
    rig = Rig(pool=pool)
    rig.submit(make_container(1))
    rig.advance(60)
    assert rig.worker_states() == {"i-001": "running"}
    return rig


def lose_session(rig: Rig) -> None:
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))


def session_up(rig: Rig) -> bool:
    return rig.engine.pool.workers["i-001"].link.session_up


def wait_for_session(rig: Rig) -> float:
    """Let time pass until the session is up again; return the seconds that it took."""
    if session_up(rig):
        return 0
    due = rig.engine.pool.timers.due(TimerKind.PROBE, "i-001")
    assert due is not None
    wait_s = due - rig.now
    rig.advance(wait_s)
    assert session_up(rig)
    return wait_s


def test_a_session_that_flaps_is_attached_anew_ever_more_slowly() -> None:
    rig = running(PoolSettings(probe_interval_s=10))
    waits_s = []
    for _ in range(10):
        lose_session(rig)
        waits_s.append(wait_for_session(rig))
    assert waits_s == [0, 0, 0.5, 1, 2, 4, 8, 10, 10, 10], "it had lasted when it was lost first"


@pytest.mark.parametrize(("lasts_s", "wait_s"), [(29.5, 4.0), (30.0, 0.0)])
def test_a_session_that_lasts_for_half_a_minute_does_not_flap(
    lasts_s: float, wait_s: float
) -> None:
    rig = running()
    for _ in range(5):
        lose_session(rig)
        wait_for_session(rig)
    rig.advance(lasts_s)
    lose_session(rig)
    assert wait_for_session(rig) == wait_s


def test_the_count_of_flaps_begins_anew_with_a_session_that_lasted() -> None:
    rig = running()
    for _ in range(5):
        lose_session(rig)
        wait_for_session(rig)
    rig.advance(30)
    waits_s = []
    for _ in range(3):
        lose_session(rig)
        waits_s.append(wait_for_session(rig))
    assert waits_s == [0, 0, 0.5]


def test_no_listing_hastens_a_session_that_flaps() -> None:
    rig = running(PoolSettings(sync_interval_s=0.5, probe_interval_s=10))
    for _ in range(8):
        lose_session(rig)
        wait_for_session(rig)
    lose_session(rig)
    probes = len(last_commands(rig, Probe))
    rig.advance(9.5)
    assert len(last_commands(rig, Probe)) == probes
    rig.advance(0.5)
    assert session_up(rig)
