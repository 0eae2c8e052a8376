"""Faults of the scheduler that the simulation found, each as a short story."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Retries
from longshore.dispatcher.domain.messages import BehaviorRequested
from longshore.pool.messages import CreateInstance
from longshore.pool.model import IdleBehavior
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type


def test_who_is_held_back_after_a_crash_is_not_locked() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1, retries=Retries(most=2)))
    rig.silent.add(CreateInstance)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    rig.exit("c-1-1", 1)
    assert rig.states() == {"c-1": "locked"}
    # The clock is set back: the restart is not due yet, as this process sees it.
    rig.now -= 100
    rig.crash()
    assert "c-1" in rig.engine.table.gates
    assert rig.states() == {"c-1": "queued"}
