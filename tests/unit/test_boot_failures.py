"""Instances that turn out to be of no use: what they hold, how much one mistake counts, its end."""

from __future__ import annotations

from functools import partial

import pytest

from longshore.dispatcher.domain.containers import Placement, SchedulerSettings
from longshore.dispatcher.domain.messages import InstanceKillRequested
from longshore.dispatcher.domain.views import ProblemKind
from longshore.dispatcher.explain.health import BOOT_FAILURES_PROBLEM, cloud_problems
from longshore.pool.boot_failures import PROVES_AFTER_S
from longshore.pool.holds import HoldCause
from longshore.pool.messages import (
    AttemptImageSeen,
    DestroyInstance,
    Probe,
    ProbeSucceeded,
    SessionLost,
    StartAttempt,
    StartRefused,
)
from longshore.pool.model import (
    AttemptImage,
    AttemptReport,
    ExitKind,
    Fault,
    PoolSettings,
    ProbeReport,
)
from tests.rigs.engine import Rig, last_commands
from tests.samples import make_container as plain_container
from tests.samples import make_type

make_container = partial(plain_container, image="busybox")
"""With an image, whose engine may find out late that it can run nothing."""


def probed(rig: Rig, *, broken: int) -> None:
    """Answer each probe that is under way: the first `broken` workers say that they are."""
    for probe in last_commands(rig, Probe):
        worker = rig.engine.pool.workers.get(probe.worker_id)
        if worker is None or worker.link.probe_op != probe.op_id:
            continue
        answer(rig, probe, "no container engine" if int(worker.id[-3:]) <= broken else "")


def answer(rig: Rig, probe: Probe, broken: str) -> None:
    """Answer a probe: nothing runs there, and its instance is broken, or "" is said of it."""
    rig.send(
        ProbeSucceeded(
            op_id=probe.op_id,
            worker_id=probe.worker_id,
            revision=probe.revision,
            began_at=rig.now,
            host_key="k",
            report=ProbeReport(attempts=(), boot_id="b", broken=broken),
        )
    )


def bought_at_once(count: int) -> Rig:
    """Return an engine that has created so many instances for so many containers."""
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    for number in range(count):
        rig.submit(make_container(number + 1))
    rig.advance(1)
    assert len(rig.engine.pool.workers) == count
    return rig


def test_what_was_bought_together_is_one_mistake() -> None:
    held_s = []
    for count in (2, 5):
        rig = bought_at_once(count)
        probed(rig, broken=count)
        assert rig.engine.pool.boot_failures == 2, "the others were there before it was known"
        hold = rig.engine.pool.holds.of(HoldCause.BOOT_FAILURE, rig.now)
        assert hold is not None
        held_s.append(hold.until - hold.since)
    assert held_s[0] == held_s[1] > 0


def test_the_first_attempt_that_runs_ends_the_hold() -> None:
    rig = bought_at_once(4)
    probed(rig, broken=3)
    states = sorted(rig.states().values())
    assert states.count("running") == 1
    assert rig.engine.pool.boot_failures == 2, "that it was started says little"
    (live,) = (each for each in rig.attempts.values() if each.outcome is None)
    rig.exit(live.id)
    assert rig.engine.pool.boot_failures == 0
    assert rig.engine.pool.holds.active(rig.now) == []
    rig.advance(1)
    assert len(rig.created_types()) > 4, "creating goes on at once"


def test_one_instance_is_tried_at_a_time_until_one_is_of_use() -> None:
    rig = bought_at_once(4)
    probed(rig, broken=4)
    bought = len(rig.created_types())
    rig.advance(60)
    assert len(rig.created_types()) == bought + 1, "to be created is not to be of use"
    probed(rig, broken=bought + 1)
    rig.advance(60)
    assert len(rig.created_types()) == bought + 2
    probed(rig, broken=bought + 1)
    assert "running" in rig.states().values()
    rig.advance(PROVES_AFTER_S - 1)
    assert len(rig.created_types()) == bought + 2
    rig.advance(1)
    assert len(rig.created_types()) == bought + 5, "the other three get theirs at once"


def test_useless_instances_bought_after_one_was_of_use_count_again() -> None:
    rig = bought_at_once(4)
    probed(rig, broken=3)
    rig.advance(PROVES_AFTER_S)
    bought = len(rig.created_types())
    assert bought > 5
    probed(rig, broken=bought)
    hold = rig.engine.pool.holds.of(HoldCause.BOOT_FAILURE, rig.now)
    assert hold is not None, "the hold that would have gone on says nothing of these"


def test_instances_that_vanish_while_they_boot_are_not_bought_without_end() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.submit(make_container(1))
    for _ in range(1800):
        if any(worker.cloud.listed for worker in rig.engine.pool.workers.values()):
            rig.cloud.clear()
        rig.advance(1)
    bought = len(rig.created_types())
    assert 2 < bought < 30, "half an hour, with a hold that doubles after each"
    assert rig.engine.pool.boot_failures >= bought - 1
    holds = rig.engine.pool.holds
    while (hold := holds.of(HoldCause.BOOT_FAILURE, rig.now)) is None:
        rig.cloud.clear()
        rig.advance(1)
    assert "it was gone before it was ready" in hold.reason


def test_an_instance_that_vanishes_once_it_was_ready_says_nothing_of_the_next() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(sync_interval_s=10, idle_timeout_s=3600))
    for number in (1, 2, 3):
        rig.silent.add(Probe)
        rig.submit(make_container(number))
        rig.cancel(f"c-{number}")
        rig.silent.clear()
        rig.probe_now(last_commands(rig, Probe)[-1])
        rig.settle()
        assert set(rig.worker_states().values()) == {"idle"}
        rig.advance(11)
        rig.cloud.clear()
        rig.advance(60)
        assert rig.worker_states() == {}
    assert rig.engine.pool.boot_failures == 0
    assert len(rig.created_types()) == 3


def test_an_instance_that_an_admin_ends_while_it_boots_was_not_of_no_use() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    for number in (1, 2, 3):
        rig.submit(make_container(number))
        rig.cancel(f"c-{number}")
        assert set(rig.worker_states().values()) == {"booting"}
        rig.send(InstanceKillRequested(worker_id=f"i-00{number}", reason=""))
        rig.advance(60)
        assert rig.worker_states() == {}
    assert rig.engine.pool.boot_failures == 0
    assert len(rig.created_types()) == 3


def test_an_instance_that_was_of_use_to_an_earlier_process_says_nothing_of_the_next() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(placement=Placement.EXCLUSIVE))
    rig.submit(*(make_container(number) for number in (1, 2, 3)))
    rig.advance(60)
    assert set(rig.worker_states().values()) == {"running"}
    rig.silent.add(Probe)
    rig.crash()
    for probe in last_commands(rig, Probe):
        reports = tuple(
            AttemptReport(attempt_id=attempt_id, container_id="")
            for attempt_id in sorted(rig.on_instance[probe.worker_id])
        )
        assert reports
        rig.send(
            ProbeSucceeded(
                op_id=probe.op_id,
                worker_id=probe.worker_id,
                revision=probe.revision,
                began_at=rig.now,
                host_key=probe.host_key,
                report=ProbeReport(attempts=reports, boot_id="b", broken="the disk is full"),
            )
        )
    assert [worker.health.broken for worker in rig.engine.pool.workers.values()] == [
        "the disk is full"
    ] * 3
    assert rig.engine.pool.boot_failures == 0


def test_an_older_instance_that_works_on_does_not_let_useless_ones_be_bought_without_end() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(placement=Placement.EXCLUSIVE))
    rig.submit(make_container(1))
    rig.advance(5)
    assert rig.worker_states() == {"i-001": "running"}
    rig.silent.add(Probe)
    rig.submit(*(make_container(number) for number in range(2, 80)))
    for _ in range(60):
        (live,) = (a for a in rig.attempts.values() if a.outcome is None)
        rig.exit(live.id)
        probed(rig, broken=1000)
        rig.advance(1)
    assert list(rig.states().values()).count("succeeded") == 60, (
        "the old one starts one after another"
    )
    bought_together = rig.pool_settings.max_concurrent_creates
    assert len(rig.created_types()) < 2 * bought_together + 10
    assert rig.engine.pool.boot_failures > 2


def test_the_first_start_on_an_instance_that_is_older_than_useless_ones_ends_no_hold() -> None:
    rig = bought_at_once(1)
    rig.advance(5)
    rig.submit(make_container(2), make_container(3))
    rig.advance(1)
    oldest, *useless = last_commands(rig, Probe)
    assert [probe.worker_id for probe in useless] == ["i-002", "i-003"]
    for probe in useless:
        answer(rig, probe, "no container engine")
    answer(rig, oldest, "")
    assert rig.worker_states()["i-001"] == "running"
    (live,) = (each for each in rig.attempts.values() if each.outcome is None)
    rig.exit(live.id)
    assert rig.engine.pool.workers["i-001"].health.has_run
    hold = rig.engine.pool.holds.of(HoldCause.BOOT_FAILURE, rig.now)
    assert hold is not None, "it was bought before whatever went wrong"


def refuse_start(rig: Rig, start: StartAttempt) -> None:
    """Answer a start: the disk of its instance is full."""
    rig.send(
        StartRefused(
            op_id=start.op_id,
            worker_id=start.worker_id,
            attempt_id=start.order.attempt_id,
            code="overloaded",
            message="no space left on device",
        )
    )


def test_instances_that_refuse_even_their_first_start_are_not_bought_without_end() -> None:
    """Found by a review: each rested, and went as idle before three starts had told of it."""
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(*(make_container(number) for number in range(1, 21)))
    answered = 0
    for _ in range(360):
        for start in last_commands(rig, StartAttempt)[answered:]:
            refuse_start(rig, start)
            answered += 1
        rig.advance(5)
    assert 20 < len(rig.created_types()) <= 30, "half an hour, with a hold that doubles"
    hold = rig.engine.pool.holds.of(HoldCause.BOOT_FAILURE, rig.now)
    assert hold is not None
    assert "where nothing else ran: no space left on device" in hold.reason


def test_all_first_starts_that_an_instance_refuses_make_it_one_of_no_use() -> None:
    rig = Rig(make_type(4))
    rig.silent.add(StartAttempt)
    rig.submit(*(make_container(number) for number in range(1, 5)))
    starts = last_commands(rig, StartAttempt)
    assert [start.worker_id for start in starts] == ["i-001"] * 4
    for start in starts:
        assert rig.engine.pool.boot_failures == 0, "another may yet run there"
        refuse_start(rig, start)
    assert rig.engine.pool.boot_failures == 1


def test_an_instance_that_is_overloaded_by_what_runs_there_is_of_use() -> None:
    rig = Rig(make_type(4))
    rig.submit(make_container(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(2))
    refuse_start(rig, last_commands(rig, StartAttempt)[-1])
    assert (rig.engine.pool.workers["i-001"].health.refusals, rig.engine.pool.boot_failures) == (
        1,
        0,
    )


NO_ENGINE = "podman: runc cannot set its limits"


@pytest.mark.parametrize("kind", [ExitKind.ENGINE_FAILURE, ExitKind.LOST])
def test_instances_on_which_nothing_can_run_are_not_bought_without_end(
    kind: ExitKind,
) -> None:
    """Found by a stranger: the runner's word that it started something had proven each of them."""
    rig = Rig(make_type(1), settings=SchedulerSettings(max_lost_attempts=1000))
    rig.trial_error = NO_ENGINE
    rig.submit(*(make_container(number) for number in range(1, 5)))
    for _ in range(150):
        for attempt_id, attempt in sorted(rig.attempts.items()):
            if attempt.outcome is None:
                rig.exit(attempt_id, 126, kind, Fault.INSTANCE)
        rig.advance(2)
    assert last_commands(rig, DestroyInstance), "a trial has found out"
    assert len(rig.created_types()) < 16, "five minutes, with a hold that doubles after each"
    hold = rig.engine.pool.holds.of(HoldCause.BOOT_FAILURE, rig.now)
    assert hold is not None
    assert NO_ENGINE in hold.reason
    assert rig.engine.pool.boot_failures >= BOOT_FAILURES_PROBLEM
    boots = [
        each for each in cloud_problems(rig.view.pool, rig.now) if each.kind is ProblemKind.BOOTS
    ]
    assert [NO_ENGINE in each.message for each in boots] == [True]


def proven(rig: Rig) -> bool:
    """Return whether the first instance is known to be of use."""
    return rig.engine.pool.workers["i-001"].health.has_run


def test_an_attempt_proves_its_instance_by_its_end_or_once_it_has_run_for_a_while() -> None:
    ends = Rig(make_type(1))
    ends.submit(make_container(1))
    assert ends.states() == {"c-1": "running"}
    assert not proven(ends), "that its runner has started it says little"
    ends.exit("c-1-1", 7)
    assert proven(ends)
    stays = Rig(make_type(1))
    stays.submit(make_container(1))
    stays.advance(PROVES_AFTER_S - 0.1)
    assert not proven(stays)
    stays.advance(0.1)
    assert proven(stays)


def test_the_time_in_which_an_image_is_fetched_proves_nothing() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    for pulling, after_s in ((True, 10 * PROVES_AFTER_S), (False, PROVES_AFTER_S - 0.1)):
        image = AttemptImage(pulling=pulling)
        rig.send(AttemptImageSeen(worker_id="i-001", attempt_id="c-1-1", image=image))
        rig.advance(after_s)
        assert not proven(rig)
    rig.advance(0.1)
    assert proven(rig)


def test_an_attempt_proves_nothing_while_its_instance_is_silent() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.silent.add(Probe)
    rig.send(SessionLost(worker_id="i-001", last_contact=rig.now, reason="reset"))
    rig.advance(2 * PROVES_AFTER_S)
    assert not proven(rig)
    rig.probe_now(last_commands(rig, Probe)[-1])
    rig.advance(PROVES_AFTER_S)
    assert proven(rig)


def test_a_plain_process_proves_its_instance_as_soon_as_it_is_started() -> None:
    rig = Rig(make_type(1))
    rig.submit(plain_container(1))
    assert rig.states() == {"c-1": "running"}
    assert proven(rig)
