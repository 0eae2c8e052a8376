"""A store that cannot be written for long: nobody is judged for what was never sent to him."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from longshore.dispatcher.domain.messages import Commit, Submitted
from longshore.dispatcher.engine.outbox import STALLED_AFTER_S, Outbox
from longshore.pool.messages import (
    CloseSession,
    CreateInstance,
    DestroyInstance,
    Probe,
    SessionLost,
    SignalAttempt,
    StoreRecovered,
    StoreStalled,
)
from longshore.pool.model import IdleBehavior
from tests.rigs.engine import Rig, last_commands
from tests.rigs.pool import PoolRig
from tests.samples import make_container, make_type
from tests.unit.test_runtime import World, begin, turns

GRACE_S = 120.0
PROBE_TIMEOUT_S = BOOT_TIMEOUT_S = 600.0
LONG_S = 1500.0


def rig_at_work() -> Rig:
    """Return a rig with two containers that run on one instance."""
    rig = Rig(make_type(4))
    rig.submit(make_container(1), make_container(2))
    rig.advance(5)
    assert rig.states() == {"c-1": "running", "c-2": "running"}
    rig.sent.clear()
    return rig


def hold_up(rig: Rig) -> None:
    """Let nothing be committed from now on, and something wait for that."""
    rig.store_lags = True
    rig.exit("c-2-1")
    assert rig.uncommitted


def move_on(rig: Rig) -> None:
    rig.store_lags = False
    rig.commit()


def is_held_up(world: World) -> bool:
    return world.engine.pool.stalled


def signals(rig: Rig) -> list[str]:
    return [command.signal for command in last_commands(rig, SignalAttempt)]


# ---- signals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("grace_s", [20.0, None])
def test_who_was_told_to_end_meanwhile_has_all_of_its_grace_afterwards(
    grace_s: float | None,
) -> None:
    rig = Rig(make_type(4))
    container = make_container(1)
    rig.submit(replace(container, spec=replace(container.spec, grace_period_s=grace_s)))
    rig.advance(5)
    rig.store_lags = True
    rig.cancel("c-1")
    rig.advance(LONG_S)
    assert signals(rig) == []
    move_on(rig)
    assert signals(rig) == ["TERM"]
    patience_s = grace_s or GRACE_S
    rig.advance(patience_s - 1)
    assert set(signals(rig)) == {"TERM"}
    rig.advance(1)
    assert signals(rig)[-1] == "KILL"
    assert rig.engine.pool.workers["i-001"].health.broken == ""


def test_who_had_its_grace_gets_kill_at_once_and_is_not_judged_before_enough_of_them() -> None:
    rig = rig_at_work()
    rig.cancel("c-1")
    rig.advance(60)
    hold_up(rig)
    rig.advance(LONG_S)
    before = len(signals(rig))
    move_on(rig)
    assert signals(rig)[before:] == ["KILL"]
    rig.advance(14)
    assert rig.engine.pool.workers["i-001"].health.broken == ""
    rig.advance(1)
    assert rig.engine.pool.workers["i-001"].health.broken == "attempt c-1-1 survives KILL"


def test_kills_that_were_not_sent_do_not_count() -> None:
    rig = rig_at_work()
    rig.cancel("c-1")
    rig.advance(GRACE_S - 20)
    hold_up(rig)
    rig.advance(LONG_S)
    before = len(signals(rig))
    move_on(rig)
    rig.advance(14)
    assert signals(rig)[before:] == ["KILL", "KILL", "KILL"]
    assert rig.engine.pool.workers["i-001"].health.broken == ""


def test_residents_of_what_is_shut_down_meanwhile_have_their_time_afterwards() -> None:
    rig = PoolRig()
    worker = rig.boot("i-1")
    rig.place(worker, "s-1", resident=True)
    rig.send(StoreStalled(since=rig.now))
    rig.behave(worker, IdleBehavior.DRAIN)
    rig.advance(LONG_S)
    assert rig.asked(DestroyInstance) == []
    assert rig.signals() == []
    rig.send(StoreRecovered())
    assert rig.signals() == [("s-1", "TERM")]
    rig.advance(GRACE_S - 1)
    assert rig.asked(DestroyInstance) == []
    rig.advance(1)
    assert len(rig.asked(DestroyInstance)) == 1


# ---- silence ------------------------------------------------------------------------------------


def test_who_lost_its_session_meanwhile_is_probed_before_it_is_judged() -> None:
    rig = rig_at_work()
    hold_up(rig)
    lost = SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset")
    rig.send(lost)
    rig.advance(LONG_S)
    move_on(rig)
    rig.advance(10)
    assert last_commands(rig, DestroyInstance) == []
    assert rig.worker_states() == {"i-001": "running"}
    assert [attempt.outcome for attempt in rig.attempts.values()].count(None) == 1


def test_who_does_not_answer_afterwards_either_is_shut_down() -> None:
    rig = rig_at_work()
    hold_up(rig)
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.advance(LONG_S)
    move_on(rig)
    rig.advance(PROBE_TIMEOUT_S - 1)
    assert last_commands(rig, DestroyInstance) == []
    rig.advance(1)
    assert len(last_commands(rig, DestroyInstance)) == 1


def test_new_instances_are_probed_before_they_are_given_up() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(*(make_container(number) for number in range(1, 4)))
    creates = last_commands(rig, CreateInstance)
    rig.store_lags = True
    for create in creates:
        rig.create_now(create)
    rig.silent.clear()
    rig.advance(LONG_S)
    assert set(rig.worker_states().values()) == {"booting"}
    move_on(rig)
    rig.advance(5)
    assert last_commands(rig, DestroyInstance) == []
    assert set(rig.states().values()) == {"running"}
    assert len(rig.created_types()) == 3, "nothing is bought again"


def test_what_never_answers_its_first_probe_is_given_up_all_the_same() -> None:
    rig = Rig(make_type(1))
    rig.silent |= {CreateInstance, Probe}
    rig.submit(make_container(1))
    (create,) = last_commands(rig, CreateInstance)
    rig.store_lags = True
    rig.create_now(create)
    rig.settle()
    rig.advance(LONG_S)
    move_on(rig)
    rig.advance(BOOT_TIMEOUT_S - 1)
    assert last_commands(rig, DestroyInstance) == []
    rig.advance(1)
    assert len(last_commands(rig, DestroyInstance)) == 1


def test_a_log_that_could_not_come_is_waited_for_anew() -> None:
    rig = PoolRig()
    worker = rig.boot("i-1")
    rig.place(worker, "b-1")
    rig.exit(worker, "b-1")
    rig.silent.add(Probe)
    rig.lose_session(worker)
    rig.send(StoreStalled(since=rig.now))
    rig.advance(LONG_S)
    rig.send(StoreRecovered())
    rig.advance(PROBE_TIMEOUT_S - 1)
    assert rig.asked(DestroyInstance) == []
    rig.advance(1)
    assert len(rig.asked(DestroyInstance)) == 1


def test_a_destroy_that_waits_is_asked_for_once() -> None:
    rig = PoolRig()
    worker = rig.boot("i-1")
    rig.send(StoreStalled(since=rig.now))
    rig.behave(worker, IdleBehavior.DRAIN)
    rig.advance(LONG_S)
    assert len(rig.asked(DestroyInstance)) == 1
    rig.send(StoreRecovered())
    rig.advance(30)
    assert len(rig.asked(DestroyInstance)) >= 3, "again and again, since it stays listed"


# ---- who tells ----------------------------------------------------------------------------------


def test_a_commit_that_takes_long_is_told_once_and_so_is_its_end() -> None:
    outbox = Outbox()
    assert outbox.next_stall_event() is None
    term = SignalAttempt(worker_id="w", attempt_id="1", signal="TERM", grace_s=9.0)
    close = CloseSession(worker_id="w")
    (first, second), _ = outbox.put(
        [Commit(changes=(), then=(term, close)), Commit(changes=(), then=())], 100.0
    )
    due = 100.0 + STALLED_AFTER_S
    assert outbox.next_stall_event() == due
    assert outbox.stall_event(due - 1) is None
    assert outbox.stall_event(due) == StoreStalled(since=100.0)
    assert outbox.stall_event(due) is None
    assert outbox.next_stall_event() is None, "only a commit changes that"
    assert outbox.committed(first.ticket) == [close], "the signal is dropped"
    assert outbox.stall_event(due) is None, "the second is as old"
    outbox.committed(second.ticket)
    assert outbox.stall_event(due) == StoreRecovered()
    assert outbox.stall_event(due) is None


async def test_the_runtime_tells_the_engine_when_its_commands_wait_and_when_they_move_on() -> None:
    world = World()
    task = await begin(world)
    world.runtime.post(Submitted(containers=(make_container(1),)))
    await turns()
    _, future = world.writes[-1]
    world.time += STALLED_AFTER_S
    world.runtime.post(SessionLost(worker_id="i-9", last_contact=0.0, reason="anything"))
    await turns()
    assert is_held_up(world)
    for _, future in world.writes:
        if not future.done():
            future.set_result(None)
    await turns()
    assert not is_held_up(world)
    assert world.engine.pool.recovered_at == world.time
    world.runtime.stop()
    await asyncio.wait_for(task, 60)
