"""Who keeps something of workers up to date hears of each change, whoever else has by then."""

from __future__ import annotations

from longshore.dispatcher.domain.messages import CancelRequested
from longshore.pool import probing
from longshore.pool.messages import AttemptExited, Probe
from longshore.pool.model import AttemptExit, ExitKind, PoolSettings
from tests.rigs.elastic_jobs import essential, rig_of, running, submit
from tests.rigs.pool import ENDED_BY_TERM, PoolRig
from tests.samples import make_container


def test_each_feed_is_drained_by_itself() -> None:
    pool = PoolRig().core
    one, other = pool.follow(), pool.follow()
    pool.touch("i-2")
    pool.touch("i-1")
    assert one.drain() == {"i-1", "i-2"}
    pool.touch("i-2")
    assert (one.pending, other.pending) == ({"i-2"}, {"i-1", "i-2"})
    assert one.drain() == {"i-2"}
    assert one.drain() == set()
    assert other.drain() == {"i-1", "i-2"}


def test_an_exit_told_by_a_worker_that_was_offline_lets_it_be_planned_onto_again() -> None:
    rig = PoolRig(settings=PoolSettings(offline_timeout_s=120, idle_timeout_s=3600))
    worker = rig.boot("i-1")
    rig.silent.add(Probe)
    rig.lose_session(worker)
    rig.advance(121)
    assert not probing.takes_work(rig.core, worker, rig.now)
    feed = rig.core.follow()
    rig.send(AttemptExited(worker_id="i-1", attempt_id="of old", exit=ENDED_BY_TERM))
    assert probing.takes_work(rig.core, worker, rig.now), "it was heard of"
    assert feed.drain() == {"i-1"}


def test_room_that_was_made_for_nobody_in_the_end_is_seen_by_elastic_jobs() -> None:
    # It is the batch part of a pass that opens the instance again, after theirs.
    rig = rig_of(2, preempt_from_priority=800)
    rig.submit(make_container(1, cpus=2, priority=100))
    submit(rig, 1, essential(cpus=2))
    rig.submit(make_container(2, cpus=2, priority=900))
    rig.cancel("c-1")
    assert running(rig) == {}
    # Both before the next pass.
    how = AttemptExit(kind=ExitKind.EXITED, code=143)
    rig.engine.handle(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=how), rig.now)
    rig.send(CancelRequested(container_id="c-2"))
    rig.advance(6)
    assert running(rig) == {"e": 1}
