"""What the metrics say of jobs and of what is held back."""

from __future__ import annotations

from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.state.agenda import LaunchResult
from tests.exposition import samples
from tests.job_samples import make_job, make_task
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type


def test_jobs_by_state() -> None:
    rig = Rig(make_type(8))
    rig.submit_job(*make_job(1, make_task(size=3)))
    rig.submit_job(*make_job(2, make_task(after=("j-1",))))
    rig.submit_job(*make_job(3, make_task(), held=True))
    found = samples(rig)
    states = {state: found["longshore_jobs", (("state", state),)] for state in ("pending", "held")}
    assert states == {"pending": 1, "held": 1}
    assert found["longshore_jobs", (("state", "running"),)] == 1
    rig.cancel_job("j-3")
    assert samples(rig)["longshore_jobs", (("state", "held"),)] == 0, "it has ended"


def ended(rig: Rig) -> dict[str, float]:
    return {
        labels[0][1]: number
        for (name, labels), number in samples(rig).items()
        if name == "longshore_jobs_ended_total"
    }


def test_jobs_that_have_ended_by_state() -> None:
    rig = Rig(make_type(8))
    assert ended(rig) == {"succeeded": 0, "failed": 0, "cancelled": 0}, "there before any is"
    for number in range(1, 6):
        rig.submit_job(*make_job(number, make_task()))
    rig.exit("c-1000-1")
    rig.exit("c-2000-1", 1)
    rig.exit("c-3000-1", 1)
    rig.cancel_job("j-4")
    rig.exit("c-4000-1", 143)
    assert ended(rig) == {"succeeded": 1, "failed": 2, "cancelled": 1}


def test_what_came_of_the_times_of_schedules() -> None:
    metrics = Metrics(Rig(make_type(8)).view, heard_at=lambda _id: 0.0)
    metrics.launches.update({LaunchResult.LAUNCHED: 3, LaunchResult.OVERLAP: 1})
    lines = metrics.exposition(0.0).decode().splitlines()
    assert [line for line in lines if line.startswith("longshore_periodic_launches_total")] == [
        'longshore_periodic_launches_total{result="launched"} 3.0',
        'longshore_periodic_launches_total{result="held"} 0.0',
        'longshore_periodic_launches_total{result="overlap"} 1.0',
        'longshore_periodic_launches_total{result="missed"} 0.0',
        'longshore_periodic_launches_total{result="refused"} 0.0',
    ]


def held_back(rig: Rig) -> dict[str, float]:
    return {
        labels[0][1]: number
        for (name, labels), number in samples(rig).items()
        if name == "longshore_containers_held_back"
    }


def test_who_is_held_back_and_why() -> None:
    rig = Rig(make_type(8))
    whys = ("after", "budget", "earlier_attempt", "job_held", "max_running", "secrets", "time")
    nobody = dict.fromkeys(whys, 0.0)
    assert held_back(rig) == nobody, "the series are there before anybody is"
    rig.submit_job(
        *make_job(1, make_task("a", size=5, max_running=2), make_task("b", after=("j-1/a",)))
    )
    rig.submit(make_container(7, not_before=rig.now + 60))
    assert held_back(rig) == {**nobody, "after": 1, "max_running": 3, "time": 1}
    rig.hold_job("j-1", held=True)
    assert held_back(rig)["job_held"] == 6, "also those that run: they would not be started again"
    rig.advance(60)
    assert held_back(rig)["time"] == 0
