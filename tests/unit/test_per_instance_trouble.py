"""What a list of jobs says of a job for each instance that goes on and is not well."""

from __future__ import annotations

import pytest

from longshore.dispatcher.domain.containers import (
    Attempt,
    Constraints,
    Container,
    ContainerState,
    Reason,
    Retries,
)
from longshore.dispatcher.domain.jobs import JobType
from longshore.dispatcher.scheduler.system.crash_loop import latest_ends
from tests.exposition import samples
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type


def rig_of(number: int = 1) -> DaemonRig:
    """Return a rig of some instances, on each of which a daemon runs."""
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=number)
    rig.submit_daemon(daemon())
    return rig


def trouble(rig: DaemonRig) -> Reason | None:
    return rig.engine.per_instance.trouble(rig.jobs["j-1"], rig.now)


def end_all(rig: DaemonRig, *, code: int = 1, after_s: float = 20) -> None:
    """Let all attempts of the daemon end by themselves, and time pass."""
    for container in rig.of_job("j-1"):
        rig.exit(container.attempts[-1].id, code=code)
    rig.advance(after_s)


@pytest.mark.parametrize(
    ("code", "instances", "said"),
    [
        (1, 1, "i-001: it exited with 1"),
        (0, 3, "i-001 and 2 more: it exited with 0"),
    ],
)
def test_a_daemon_that_ends_again_and_again_is_told_whether_it_runs_just_now_or_not(
    code: int, instances: int, said: str
) -> None:
    said = f"started again and again on {said}; see longshore logs j-1 --instance i-001"
    rig = rig_of(instances)
    end_all(rig, code=code)
    end_all(rig, code=code, after_s=5)
    assert trouble(rig) is None, "twice may be chance"
    end_all(rig, code=code, after_s=1)
    assert not rig.of_job("j-1")[0].has_open_attempt
    assert trouble(rig) == Reason(code="started_again", message=said)
    rig.advance(20)
    assert rig.of_job("j-1")[0].has_open_attempt
    assert trouble(rig) == Reason(code="started_again", message=said)
    rig.advance(600)
    assert trouble(rig) is None, "it has run for long now"


def test_who_does_not_end_again_and_again_is_not_looked_at_for_a_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A list asks for each job, and each may have a container on every instance."""
    rig = rig_of(5)
    for _ in range(3):
        rig.exit(rig.of_job("j-1")[0].attempts[-1].id, code=1)
        rig.advance(20)
    looked_at: list[str] = []

    def noted(container: Container, now: float) -> list[Attempt]:
        looked_at.append(container.id)
        return latest_ends(container, now)

    monkeypatch.setattr("longshore.dispatcher.scheduler.system.crash_loop.latest_ends", noted)
    assert trouble(rig) is not None
    assert set(looked_at) == {rig.of_job("j-1")[0].id}
    rig.advance(600)
    assert trouble(rig) is None
    looked_at.clear()
    assert trouble(rig) is None
    assert looked_at == []


def test_a_daemon_that_ended_again_and_again_is_told_after_a_crash_too() -> None:
    rig = rig_of()
    for _ in range(3):
        end_all(rig)
    before = trouble(rig)
    assert before is not None
    rig.crash()
    assert trouble(rig) == before


def test_a_daemon_that_ends_now_and_then_is_well() -> None:
    rig = rig_of()
    for _ in range(5):
        end_all(rig, after_s=400)
    assert trouble(rig) is None


@pytest.mark.parametrize(("delay_s", "is_told"), [(400, True), (15, False)])
def test_a_daemon_with_a_long_delay_is_told_though_it_cannot_end_thrice_in_ten_minutes(
    delay_s: int, is_told: bool
) -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(retries=Retries(delay_s=delay_s)))
    for _ in range(3):
        end_all(rig, after_s=410)
    found = trouble(rig)
    assert (found is not None and found.code == "started_again") is is_told


def test_a_daemon_that_finds_no_room_on_an_instance_is_told_until_it_has_some() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join(number=2)
    rig.submit(make_container(1, priority=900))
    rig.submit_daemon(daemon(priority=400))
    assert len([each for each in rig.of_job("j-1") if each.has_open_attempt]) == 1
    said = "i-001 is short of cpus, and nothing there makes way; see longshore explain j-1"
    assert trouble(rig) == Reason(code="no_room", message=said)
    sysbatch = daemon(2, type_=JobType.SYSBATCH, priority=300)
    rig.submit_daemon(sysbatch)
    assert any(each.state is ContainerState.QUEUED for each in rig.of_job("j-2"))
    assert rig.engine.per_instance.trouble(sysbatch, rig.now) is None, "that waits by its nature"
    assert in_trouble(rig) == {"failed": 0, "no_room": 1, "no_type": 0, "started_again": 0}
    rig.hold_job("j-1", held=True)
    assert in_trouble(rig)["no_room"] == 0
    rig.hold_job("j-1", held=False)
    rig.exit("c-1-1")
    assert trouble(rig) is None


def test_the_metrics_count_jobs_by_what_is_wrong_with_them() -> None:
    rig = rig_of()
    rig.submit_daemon(daemon(2, constraints=Constraints(labels=(("foo", "yes"),))))
    for _ in range(3):
        end_all(rig)
    assert in_trouble(rig) == {"failed": 0, "no_room": 0, "no_type": 1, "started_again": 1}


def in_trouble(rig: DaemonRig) -> dict[str, float]:
    return {
        labels[0][1]: number
        for (name, labels), number in samples(rig).items()
        if name == "longshore_jobs_in_trouble"
    }


def test_the_next_revision_begins_without_the_ends_of_the_one_before() -> None:
    rig = rig_of()
    for _ in range(3):
        end_all(rig)
    assert trouble(rig) is not None
    rig.revise("j-1", command=("better",))
    rig.advance(20)
    assert rig.of_job("j-1")[0].has_open_attempt
    assert trouble(rig) is None


def test_a_job_for_which_no_type_would_do_is_told_unless_it_runs_on_one_that_there_was() -> None:
    rig = rig_of()
    job = daemon(2, constraints=Constraints(labels=(("foo", "yes"),)))
    rig.submit_daemon(job)
    found = rig.engine.per_instance.trouble(job, rig.now)
    assert found is not None
    lacks = "no configured instance type would do for it: label foo=yes missing"
    assert found == Reason(code="no_type", message=f"{lacks}; configure one, or change the job")
    rig.types.clear()
    rig.engine.pool.types = {}
    assert trouble(rig) is None, "it runs there"
    found = rig.engine.per_instance.trouble(job, rig.now)
    assert found is not None
    assert "would do for it: there is none; " in found.message


def test_nothing_is_told_of_other_jobs_and_of_those_that_have_ended() -> None:
    rig = rig_of()
    rig.submit(make_container(7))
    for _ in range(3):
        end_all(rig)
    assert trouble(rig) is not None
    rig.cancel_job("j-1")
    assert trouble(rig) is None
    assert rig.engine.per_instance.trouble(daemon(9, type_=JobType.SYSBATCH), rig.now) is None
