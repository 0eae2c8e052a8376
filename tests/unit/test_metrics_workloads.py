"""What the metrics say of jobs that wait for their own scheduler, of which no queue tells."""

from __future__ import annotations

from longshore.dispatcher.domain.containers import Retries
from longshore.dispatcher.domain.jobs import JobType
from tests.exposition import samples
from tests.rigs.elastic_jobs import elastic, essential, rig_of, running, submit
from tests.rigs.engine import Rig
from tests.rigs.per_instance_jobs import LONG, DaemonRig, daemon
from tests.samples import make_container, make_type


def waiting(rig: Rig, name: str = "containers_waiting") -> dict[str, float]:
    return {
        labels[0][1]: number
        for (sample, labels), number in samples(rig).items()
        if sample == f"longshore_scheduler_{name}"
    }


def longest(rig: Rig) -> dict[str, float]:
    return waiting(rig, "longest_wait_seconds")


def test_a_daemon_without_room_on_an_instance_waits_there_and_is_told_of() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    assert waiting(rig) == {"system": 0, "sysbatch": 0, "elastic": 0}, "there before any is"
    rig.join(number=2)
    rig.submit(make_container(1, cpus=1))
    rig.submit_daemon(daemon())
    assert waiting(rig) == {"system": 1, "sysbatch": 0, "elastic": 0}
    before = longest(rig)["system"]
    rig.advance(100)
    assert longest(rig)["system"] == before + 100
    rig.exit("c-1-1")
    assert waiting(rig)["system"] == 0
    assert longest(rig)["system"] == 0


def test_a_daemon_that_is_to_be_started_again_later_waits_since_it_ended() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit_daemon(daemon(retries=Retries(delay_s=15)))
    ((first, _),) = rig.starts()
    rig.advance(100)
    rig.exit(first, code=3)
    ((second, _),) = rig.starts()
    rig.exit(second, code=3)
    assert waiting(rig)["system"] == 1
    assert longest(rig)["system"] < 15


def test_a_sysbatch_job_has_a_row_of_its_own() -> None:
    rig = DaemonRig(make_type(1), pool=LONG)
    rig.join()
    rig.submit(make_container(1, cpus=1))
    rig.submit_daemon(daemon(type_=JobType.SYSBATCH))
    assert waiting(rig) == {"system": 0, "sysbatch": 1, "elastic": 0}


def test_an_elastic_job_waits_by_what_is_essential_unless_somebody_holds_it() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(3), elastic(5))
    before = longest(rig)["elastic"]
    rig.advance(500)
    assert waiting(rig) == {"system": 0, "sysbatch": 0, "elastic": 3}
    assert longest(rig)["elastic"] == before + 500
    submit(rig, 2, essential(4), held=True)
    submit(rig, 3, essential(4), priority=0)
    assert waiting(rig)["elastic"] == 3
    rig.cancel_job("j-1")
    assert waiting(rig)["elastic"] == 0


def test_one_that_runs_with_fewer_than_it_could_is_no_alarm() -> None:
    rig = rig_of(2)
    submit(rig, 1, essential(1), elastic(5))
    assert running(rig) == {"e": 1, "w": 1}
    assert waiting(rig)["elastic"] == 0
