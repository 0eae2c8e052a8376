"""What another store than ours has started is kept until an admin says what becomes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.dispatcher.domain.messages import (
    BehaviorRequested,
    PublishStray,
    StrayAction,
    StraysDecided,
)
from longshore.dispatcher.service.contracts import NotFound
from longshore.drivers.interface import CLUSTER_TAG, IDLE_BEHAVIOR_TAG, TYPE_TAG
from longshore.pool.leaks import LeakKind, find_leaks
from longshore.pool.messages import (
    AttemptExited,
    CreateInstance,
    DestroyInstance,
    Listed,
    ListInstances,
    Probe,
    ReleaseAttempt,
    SignalAttempt,
    StartAttempt,
)
from longshore.pool.model import (
    AttemptExit,
    AttemptReport,
    ExitKind,
    IdleBehavior,
    InstanceSeen,
    PoolSettings,
)
from tests.rigs.cloud import CLUSTER
from tests.rigs.engine import Rig, last_commands
from tests.rigs.services import services_over, store_in
from tests.samples import make_container, make_type

OURS, ANOTHER = "0" * 32, "1" * 32
SUCCESS = AttemptExit(kind=ExitKind.EXITED, code=0)


def report(number: int, store: str) -> AttemptReport:
    name = f"c-{number}"
    return AttemptReport(attempt_id=f"{name}-1", container_id=name, store=store)


def started_anew(*there: AttemptReport, store: str = OURS) -> Rig:
    """Return an engine whose store knows nothing of an instance that runs something."""
    rig = Rig(
        make_type(4),
        pool=PoolSettings(idle_timeout_s=30, sync_interval_s=10),
        store=store,
        listed=False,
    )
    appear(rig, *there)
    return rig


def appear(rig: Rig, *there: AttemptReport, expected: str = "running") -> None:
    """Let the first listing show an instance that runs something."""
    tags = {CLUSTER_TAG: CLUSTER, TYPE_TAG: "t4", IDLE_BEHAVIOR_TAG: "run"}
    seen = InstanceSeen(id="i-old", address="10.0.0.9:22", tags=tuple(sorted(tags.items())))
    rig.cloud["i-old"] = seen
    rig.on_instance["i-old"] = {each.attempt_id: each for each in there}
    rig.silent.discard(ListInstances)
    rig.send(Listed(op_id=rig.engine.pool.listing_op, instances=(seen,), began_at=rig.now))
    assert rig.worker_states() == {"i-old": expected}


def signalled(rig: Rig) -> set[str]:
    return {each.attempt_id for each in rig.sent if isinstance(each, SignalAttempt)}


def told(rig: Rig) -> list[tuple[str, StrayAction]]:
    return [(e.attempt_id, e.action) for e in rig.published if isinstance(e, PublishStray)]


def decide(rig: Rig, *attempts: str, adopt: bool) -> None:
    rig.send(StraysDecided(worker_id="i-old", attempt_ids=attempts, adopt=adopt))


def test_what_another_store_has_started_runs_on_and_its_instance_too() -> None:
    rig = started_anew(report(1, ANOTHER), report(2, ANOTHER))
    rig.advance(3600)
    assert signalled(rig) == set()
    assert rig.worker_states() == {"i-old": "running"}
    assert not any(isinstance(each, DestroyInstance) for each in rig.sent)
    assert told(rig) == [("c-1-1", StrayAction.KEPT), ("c-2-1", StrayAction.KEPT)]


@pytest.mark.parametrize("store", ["", OURS], ids=["of an older runner", "of our own"])
def test_what_ours_has_started_or_nobody_knows_who_is_ended_and_said(store: str) -> None:
    rig = started_anew(report(1, store))
    assert signalled(rig) == {"c-1-1"}
    [line] = [each for each in rig.published if isinstance(each, PublishStray)]
    assert (line.action, line.worker_id, line.container_id) == (
        StrayAction.ENDED_BY_US,
        "i-old",
        "c-1",
    )


def test_a_store_without_an_id_keeps_nothing() -> None:
    assert signalled(started_anew(report(1, ANOTHER), store="")) == {"c-1-1"}


def test_what_is_known_is_ours_whatever_store_started_it() -> None:
    rig = Rig(make_type(4), store=ANOTHER)
    rig.submit(make_container(1))
    there = rig.on_instance["i-001"]
    rig.store = OURS
    there["c-1-1"] = AttemptReport(attempt_id="c-1-1", container_id="c-1", store=ANOTHER)
    rig.crash()
    assert rig.states() == {"c-1": "running"}
    assert find_leaks(rig.engine.pool, rig.now) == []


def test_nothing_new_goes_beside_what_takes_nobody_knows_what() -> None:
    rig = started_anew(report(1, ANOTHER))
    rig.submit(make_container(7))
    starts = [each for each in rig.sent if isinstance(each, StartAttempt)]
    assert [each.worker_id for each in starts] == ["i-001"]


@pytest.mark.parametrize(("since_s", "waits"), [(1.0, True), (-10_000.0, False)])
def test_an_earlier_process_of_a_container_keeps_it_from_a_second_one(
    since_s: float, waits: bool
) -> None:
    """A backup of before its start was put back: the store has it queued, and it runs.

    Of what was submitted since then an instance has no say.
    """
    rig = Rig(make_type(4), store=ANOTHER)
    rig.silent.add(CreateInstance)
    rig.submit(make_container(7))
    rig.store, rig.store_since = OURS, rig.now + since_s
    rig.crash(listed=False)
    appear(rig, report(7, ANOTHER))
    rig.advance(600)
    assert signalled(rig) == set()
    reason = rig.engine.why_waiting("c-7")
    assert (reason is not None and reason.code == "earlier_attempt") == waits
    rig.on_instance["i-old"].clear()
    rig.send(AttemptExited(worker_id="i-old", attempt_id="c-7-1", exit=SUCCESS))
    assert rig.states() == {"c-7": "running"}


def test_it_is_a_leak_until_an_admin_decides() -> None:
    rig = started_anew(report(1, ANOTHER), report(2, ANOTHER))
    rig.advance(100)
    [leak] = find_leaks(rig.engine.pool, rig.now)
    assert (leak.instance_id, leak.kind, leak.since) == ("i-old", LeakKind.STRAYS_KEPT, 1000.0)
    assert leak.why == "it runs 2 attempts of another store, which nobody here knows: c-1, c-2"
    assert "longshore strays kill i-old" in leak.remedy
    decide(rig, "c-1-1", adopt=True)
    decide(rig, "c-2-1", adopt=False)
    assert find_leaks(rig.engine.pool, rig.now) == []


def test_an_admin_lets_them_be_ended() -> None:
    rig = started_anew(report(1, ANOTHER), report(2, ANOTHER))
    decide(rig, "c-1-1", "c-none", adopt=False)
    assert signalled(rig) == {"c-1-1"}
    assert told(rig)[2:] == [("c-1-1", StrayAction.KILLED)]
    for name in ("c-1-1", "c-2-1"):
        del rig.on_instance["i-old"][name]
        rig.send(AttemptExited(worker_id="i-old", attempt_id=name, exit=SUCCESS))
    released = {each.attempt_id for each in rig.sent if isinstance(each, ReleaseAttempt)}
    assert released == {"c-1-1", "c-2-1"}
    assert rig.worker_states() == {"i-old": "idle"}
    rig.submit(make_container(7, cpus=4))
    assert rig.states() == {"c-7": "running"}, "there is room again"


def test_an_adopted_one_is_left_to_its_own_end_which_is_told() -> None:
    rig = started_anew(report(1, ANOTHER))
    decide(rig, "c-1-1", adopt=True)
    rig.advance(3600)
    assert (signalled(rig), rig.worker_states()) == (set(), {"i-old": "running"})
    rig.on_instance["i-old"].clear()
    failed = AttemptExit(kind=ExitKind.EXITED, code=3)
    rig.send(AttemptExited(worker_id="i-old", attempt_id="c-1-1", exit=failed))
    last = [each for each in rig.published if isinstance(each, PublishStray)][-1]
    assert (last.action, last.exit_code) == (StrayAction.GONE, 3)


def test_a_new_process_does_not_forget_that_it_is_another_store_s() -> None:
    rig = started_anew(report(1, ANOTHER))
    rig.crash()
    rig.advance(600)
    assert (signalled(rig), rig.worker_states()) == (set(), {"i-old": "running"})


@pytest.mark.parametrize("accepted", [True, False])
def test_one_that_nobody_can_reach_is_held_where_another_store_may_have_known_it(
    accepted: bool,
) -> None:
    """Its key went with the store: nobody knows what runs there."""
    rig = Rig(make_type(4), pool=PoolSettings(boot_timeout_s=60), store=OURS)
    rig.store_accepted = accepted
    rig.silent.add(Probe)
    rig.crash(listed=False)
    appear(rig, expected="unknown")
    rig.advance(61)
    if accepted:
        assert not any(isinstance(each, DestroyInstance) for each in rig.sent)
        [leak] = find_leaks(rig.engine.pool, rig.now)
        assert (leak.instance_id, leak.kind) == ("i-old", LeakKind.SILENT_HELD)
        assert rig.engine.pool.workers["i-old"].behavior is IdleBehavior.HOLD
    else:
        assert any(isinstance(each, DestroyInstance) for each in rig.sent)


@pytest.mark.parametrize("word", [IdleBehavior.RUN, IdleBehavior.DRAIN])
def test_an_admins_word_stands_on_one_that_was_held_since_nobody_can_reach_it(
    word: IdleBehavior,
) -> None:
    rig = Rig(make_type(4), pool=PoolSettings(boot_timeout_s=60), store=OURS)
    rig.store_accepted = True
    rig.silent.add(Probe)
    rig.crash(listed=False)
    appear(rig, expected="unknown")
    rig.advance(61)
    assert rig.engine.pool.workers["i-old"].behavior is IdleBehavior.HOLD
    rig.send(BehaviorRequested(worker_id="i-old", behavior=word))
    rig.advance(rig.pool_settings.probe_timeout_s)
    assert [each.instance_id for each in rig.sent if isinstance(each, DestroyInstance)] == ["i-old"]


async def test_the_service_tells_of_them_and_decides(tmp_path: Path) -> None:
    rig = started_anew(report(1, ANOTHER), report(2, ANOTHER))
    with store_in(tmp_path) as store:
        async with services_over(rig, store, tmp_path) as services:
            assert [
                (e.attempt, e.fate) for e in services.instances.strays(cursor="", limit=9).items
            ] == [
                ("c-1-1", "undecided"),
                ("c-2-1", "undecided"),
            ]
            with pytest.raises(NotFound, match="no stray c-9-1 is kept on i-old"):
                await services.instances.decide_strays("i-old", ["c-9-1"], adopt=True)
            with pytest.raises(NotFound, match="there is no instance i-none"):
                await services.instances.decide_strays("i-none", [], adopt=True)
            [one] = await services.instances.decide_strays("i-old", ["c-1-1"], adopt=True)
            assert (one.attempt, one.fate) == ("c-1-1", "adopted")
            both = await services.instances.decide_strays("i-old", [], adopt=False)
            assert [each.fate for each in both] == ["killed", "killed"]


@pytest.mark.parametrize("store", ["", OURS, ANOTHER])
def test_what_an_image_brings_along_does_not_prove_that_an_instance_is_of_use(store: str) -> None:
    """Instances on which nothing of ours has run do not let more of them be bought at will."""
    rig = Rig(make_type(1), store=OURS)
    rig.silent.add(StartAttempt)
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    rig.on_instance["i-001"] = {f"c-{n}-1": report(n, store) for n in range(10, 266)}
    rig.probe_now(last_commands(rig, Probe)[-1])
    worker = rig.engine.pool.workers["i-001"]
    assert len(rig.engine.pool.attempts_on("i-001")) > 200
    assert not worker.health.has_run


def test_what_an_earlier_process_has_started_proves_that_its_instance_is_of_use() -> None:
    rig = started_anew(report(1, OURS))
    assert rig.engine.pool.workers["i-old"].health.has_run
