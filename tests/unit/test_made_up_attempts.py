"""Attempts that an instance makes up: so many are dealt with at a time, and no more."""

from __future__ import annotations

import pytest

from longshore.pool.messages import AttemptExited, Probe, ReleaseAttempt, SignalAttempt
from longshore.pool.model import AttemptExit, AttemptReport
from tests.unit.test_probing_edge_cases import SUCCESS, count, lose_session, running


@pytest.mark.parametrize("exit_", [None, SUCCESS])
def test_of_attempts_that_an_instance_makes_up_some_are_dealt_with_at_a_time(
    exit_: AttemptExit | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by an attacker's reading: 20,000 strays kept the engine busy, again and again."""
    monkeypatch.setattr("longshore.pool.probing._MOST_STRANGERS", 50)
    rig = running(cpus=2)
    rig.advance(20)
    made_up = [f"s-{number:05}-1" for number in range(120)]
    there = rig.on_instance["i-001"]
    for name in made_up:
        there[name] = AttemptReport(attempt_id=name, container_id="", exit=exit_)
    lose_session(rig)
    dealt_with: list[list[str]] = []
    for _ in range(4):
        told = [c for c in rig.sent if isinstance(c, SignalAttempt | ReleaseAttempt)]
        assert all(isinstance(c, SignalAttempt) == (exit_ is None) for c in told)
        dealt_with.append(sorted({command.attempt_id for command in told}))
        for name in dealt_with[-1]:
            there.pop(name, None)
            if exit_ is None:
                rig.send(AttemptExited(worker_id="i-001", attempt_id=name, exit=SUCCESS))
        rig.sent.clear()
        rig.advance(15)
    assert dealt_with == [made_up[:50], made_up[50:100], made_up[100:], []]
    assert (list(there), rig.states()) == (["c-1-1"], {"c-1": "running"})
    assert count(rig, Probe) == 0


def test_no_more_than_500_strays_are_dealt_with_while_they_do_not_end() -> None:
    rig = running(cpus=2)
    for number in range(1200):
        name = f"s-{number:05}-1"
        rig.on_instance["i-001"][name] = AttemptReport(attempt_id=name, container_id="")
    lose_session(rig)
    for _ in range(5):
        rig.advance(15)
        assert len([a for a in rig.engine.pool.attempts_on("i-001") if a.stray]) == 500
    assert count(rig, Probe) > 5, "it is looked again all the time"
