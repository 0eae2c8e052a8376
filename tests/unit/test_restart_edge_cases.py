"""What guards a new start: what an earlier process journalled, and what it could not."""

from __future__ import annotations

from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import AttemptOutcome
from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    Commit,
    PublishContainer,
    PublishInstance,
    Woken,
)
from longshore.dispatcher.engine.outbox import Outbox
from longshore.drivers.errors import BugError
from longshore.pool.messages import (
    AttemptExited,
    CloseSession,
    CreateInstance,
    ListInstances,
    Probe,
    ReleaseAttempt,
    SetLease,
    SetTags,
    SignalAttempt,
    StartAttempt,
)
from longshore.pool.model import AttemptExit, AttemptReport, ExitKind, IdleBehavior, Worker
from tests.rigs.engine import CommandKind, Rig, last_commands
from tests.samples import make_container, make_type

SUCCESS = AttemptExit(kind=ExitKind.EXITED, code=0)


def count(rig: Rig, kind: type[CommandKind]) -> int:
    return len(last_commands(rig, kind))


def worker_of(rig: Rig, worker_id: str = "i-001") -> Worker:
    return rig.engine.pool.workers[worker_id]


def started(rig: Rig) -> Rig:
    """Submit container 1, which runs on i-001 then."""
    rig.submit(make_container(1))
    assert rig.states()["c-1"] == "running"
    return rig


def test_an_instance_keeps_its_age_and_what_is_gone_leaves_no_key() -> None:
    rig = started(Rig())
    created_at = rig.instances["i-001"].created_at
    rig.advance(500)
    rig.crash()
    rig.exit("c-1-1")
    assert rig.instances["i-001"].created_at == created_at
    del rig.cloud["i-001"]
    rig.advance(61)
    rig.advance(3600)
    assert rig.engine.pool.pinned_keys == {}


def test_what_ended_while_no_process_ran_leaves_no_key_and_no_idle_behavior() -> None:
    rig = started(Rig())
    rig.silent.add(SetTags)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    rig.cloud.clear()
    rig.knows_ended = False
    rig.crash()
    pool = rig.engine.pool
    assert (list(pool.pinned_keys), list(pool.asked_behaviors)) == (["i-001"], ["i-001"])
    rig.advance(250)
    assert rig.instances["i-001"].gone_at is not None
    assert "i-001" in pool.pinned_keys, "a listing may have lacked it, and show it again"
    rig.advance(3600)
    assert "i-001" not in pool.pinned_keys
    assert pool.asked_behaviors == {}


def test_an_instance_is_on_record_before_it_was_ever_reached() -> None:
    rig = Rig()
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    assert rig.instances["i-001"].host_key == ""


def test_what_may_run_on_an_unprobed_worker_keeps_its_room() -> None:
    rig = started(Rig())
    rig.silent.add(Probe)
    rig.crash()
    rig.submit(make_container(2))
    assert count(rig, CreateInstance) == 1


def test_a_start_whose_answer_a_crash_swallowed_is_found_running() -> None:
    rig = Rig()
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.silent.discard(StartAttempt)
    rig.on_instance["i-001"]["c-1-1"] = AttemptReport(attempt_id="c-1-1", container_id="c-1")
    rig.crash()
    assert rig.states() == {"c-1": "running"}
    assert count(rig, StartAttempt) == 0


def test_a_claim_without_a_place_is_given_up_after_a_crash() -> None:
    rig = Rig(make_type(2))
    rig.silent.add(Probe)
    rig.submit(make_container(1, cpus=2))
    assert rig.states() == {"c-1": "locked"}
    rig.cloud.clear()
    rig.types = {"t1": make_type(1)}
    rig.crash()
    assert rig.states() == {"c-1": "queued"}, "no type serves it any more"


def test_an_attempt_that_is_being_ended_is_ended_after_a_crash_whatever_was_asked_since() -> None:
    rig = started(Rig())
    rig.set_priority("c-1", 0)
    rig.set_priority("c-1", 700)
    rig.crash()
    assert [c.signal for c in last_commands(rig, SignalAttempt)] == ["TERM"]
    rig.exit("c-1-1", 143)
    assert rig.attempts["c-1-1"].outcome is AttemptOutcome.PREEMPTED
    assert rig.states() == {"c-1": "running"}


def test_a_log_that_a_crash_interrupted_is_noted_when_it_is_complete() -> None:
    rig = started(Rig())
    rig.send(AttemptExited(worker_id="i-001", attempt_id="c-1-1", exit=SUCCESS))
    rig.crash()
    rig.exit("c-1-1")
    assert rig.attempts["c-1-1"].log_complete
    assert worker_of(rig).load.unreleased == set()


def test_a_removed_type_stops_nothing_that_runs() -> None:
    rig = started(Rig())
    rig.types = {"t2": make_type(2)}
    rig.crash()
    rig.exit("c-1-1")
    assert rig.states() == {"c-1": "succeeded"}


def test_no_pass_before_the_first_listing_and_none_when_nothing_changed() -> None:
    rig = Rig(listed=False)
    rig.submit(make_container(1))
    assert rig.engine.handle(Woken(), rig.now) == []
    rig.list_now(last_commands(rig, ListInstances)[-1].op_id)
    rig.settle()
    passes = rig.engine.scheduling.passes
    assert rig.engine.handle(Woken(), rig.now) == []
    assert rig.engine.scheduling.passes == passes


def test_a_wish_is_remembered_though_it_changes_nothing_here() -> None:
    rig = started(Rig())
    event = BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.RUN)
    (commit,) = rig.engine.handle(event, rig.now)
    assert isinstance(commit, Commit), "somebody else may have written other tags meanwhile"
    assert [type(command) for command in commit.then] == [SetTags, PublishInstance]
    hold = BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD)
    (commit,) = rig.engine.handle(hold, rig.now)
    assert isinstance(commit, Commit), "what is to be remembered is"
    assert [type(command) for command in commit.then] == [SetLease, SetTags, PublishInstance]


# ---- what is told and kept ------------------------------------------------------------


def test_each_state_of_a_container_is_published() -> None:
    rig = started(Rig())
    rig.exit("c-1-1")
    told = [p.container.state.value for p in rig.published if isinstance(p, PublishContainer)]
    assert (told[0], told[-1]) == ("queued", "succeeded")
    assert sorted(told) == ["locked", "locked", "queued", "running", "succeeded"]


def test_a_container_has_begun_with_its_first_attempt_and_costs_the_sum_of_all() -> None:
    rig = started(Rig())
    began_at = rig.now
    rig.advance(3600)
    rig.exit("c-1-1", 0, ExitKind.LOST)
    rig.advance(3601)
    rig.exit("c-1-2")
    container = rig.containers["c-1"]
    assert container.started_at == began_at
    assert container.cost_usd == Decimal("0.246")


def test_a_commit_that_is_done_early_frees_nothing_of_an_earlier_one() -> None:
    outbox = Outbox()
    first, second = ReleaseAttempt(worker_id="w", attempt_id="1"), CloseSession(worker_id="w")
    commits = [Commit(changes=(), then=(first,)), Commit(changes=(), then=(second,))]
    (one, two), ready = outbox.put(commits, 0.0)
    assert ready == []
    assert outbox.committed(two.ticket) == []
    with pytest.raises(BugError):
        outbox.committed(two.ticket)
    assert outbox.committed(one.ticket) == [first, second]
