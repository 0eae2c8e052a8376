"""What becomes of attempts of sysbatch jobs that are lost, where these are not to run again."""

from __future__ import annotations

from dataclasses import replace

from longshore.dispatcher.domain.containers import Retries
from longshore.dispatcher.domain.jobs import Job, JobType
from longshore.pool.model import ExitKind
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import make_type


def once(*, retry_lost: bool, retries: Retries) -> Job:
    """Return a sysbatch job."""
    job = daemon(type_=JobType.SYSBATCH, retries=retries)
    spec = replace(job.tasks[0].spec, retry_lost=retry_lost)
    return replace(job, tasks=(replace(job.tasks[0], spec=spec),))


def test_a_sysbatch_attempt_that_is_lost_runs_again_unless_its_user_says_not() -> None:
    for runs_again in (True, False):
        rig = DaemonRig(make_type(1), pool=LONG)
        rig.join()
        rig.submit_daemon(once(retry_lost=runs_again, retries=Retries(most=3)))
        ((first, _),) = rig.starts()
        rig.exit(first, code=-1, kind=ExitKind.LOST)
        rig.advance(300)
        assert len(rig.starts()) == runs_again
        container = rig.containers[first.rpartition("-")[0]]
        assert container.state.value == ("running" if runs_again else "failed")
        assert runs_again == (container.reason is None)
        rig.crash()
        rig.advance(300)
        assert rig.starts() == [], "it is remembered"


def test_a_lost_attempt_is_not_told_to_be_one_of_those_that_failed() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(once(retry_lost=False, retries=Retries(most=3)))
    ((first, _),) = rig.starts()
    rig.exit(first, code=-1, kind=ExitKind.LOST)
    reason = rig.containers[first.rpartition("-")[0]].reason
    assert reason is not None
    assert reason.message == "its supervisor is gone without an exit record"


def test_what_an_earlier_version_left_to_run_again_does_so() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(once(retry_lost=True, retries=Retries(delay_s=99)))
    for number in (1, 2):
        rig.exit(f"c-1000001-{number}", code=-1, kind=ExitKind.LOST)
    rig.starts()
    rig.advance(30)
    assert rig.starts() == []
    container = rig.containers["c-1000001"]
    spec = replace(container.spec, retry_lost=False)
    rig.containers[container.id] = replace(container, spec=spec)
    rig.crash()
    rig.advance(300)
    assert len(rig.starts()) == 1


def test_a_sysbatch_attempt_that_goes_with_its_instance_has_not_failed() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    (where,) = rig.join()
    rig.submit_daemon(once(retry_lost=False, retries=Retries()))
    ((first, _),) = rig.starts()
    del rig.cloud[where]
    rig.advance(300)
    container = rig.containers[first.rpartition("-")[0]]
    assert container.state.value == "cancelled"
    assert container.reason is not None
    assert container.reason.code == "instance_gone"
