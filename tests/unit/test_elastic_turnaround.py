"""A few seeds of the measurement of turnaround: what it runs on, and that its goals are met there.

All seeds, policies and loads are run by `benchmarks/elastic.py`.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.elastic import CPUS, INSTANCES, Figure, main, measure, workload
from longshore.dispatcher.domain.containers import ElasticSettings, QueuePolicy
from longshore.dispatcher.domain.jobs import ElasticMode
from tests.rigs.elastic import World, elastic, essential, make_job
from tests.samples import make_type


def test_the_load_of_a_workload_is_what_was_asked_for() -> None:
    jobs = workload(1, 0.9, 4000)
    work_s = sum(job.count * (job.runtime_s or 0) for job in jobs)
    assert work_s / (jobs[-1].submitted_at * INSTANCES * CPUS) == pytest.approx(0.9, rel=0.1)
    assert jobs == workload(1, 0.9, 4000)
    assert jobs != workload(2, 0.9, 4000)


def test_a_job_alone_takes_as_long_as_it_says_and_longer_with_less() -> None:
    whole = make_job(1, essential(2), elastic(6), runtime_s=8.0, submitted_at=3.0)
    for cpus, end in ((8, 11.0), (4, 19.0)):
        world = World(types=(("i-1", make_type(cpus)),))
        assert world.run([whole]) == {"j-1": pytest.approx(end)}
    beside = replace(whole, id="j-2", sequence=2, submitted_at=7.0)
    world = World(types=(("i-1", make_type(9)),))
    # The second comes when the first is half done: it takes 1 cpu that is free and 1 that is not.
    ends = world.run([whole, beside])
    assert ends["j-1"] == pytest.approx(7.0 + 4.0 * 8 / 7)


@pytest.mark.parametrize("policy", [QueuePolicy.FIFO, QueuePolicy.SRPT])
def test_the_goals_are_met_on_a_few_seeds_at_high_load(policy: QueuePolicy) -> None:
    figure = measure(policy, 0.9, range(2), 60)
    assert figure.holds, figure


def test_a_figure_that_misses_its_goal_says_so() -> None:
    fifo = Figure(policy="fifo", load=0.9, rigid_s=130.0, malleable_s=100.0, flexible_s=100.0)
    sjf = replace(fifo, policy="sjf", rigid_s=90.0, flexible_s=102.0)
    assert (fifo.holds, sjf.holds) == (True, True)
    assert not replace(fifo, rigid_s=105.0).holds
    assert not replace(fifo, flexible_s=100.1).holds
    assert not replace(sjf, flexible_s=102.1).holds


def test_the_command_prints_a_line_for_each_policy_and_load(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["--seeds", "1", "--jobs", "8"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        [policy.value, load] for load in ("0.7", "0.9") for policy in QueuePolicy
    ]
    main(["--seeds", "1", "--jobs", "8", "--json"])
    assert len(json.loads(capsys.readouterr().out)) == 12


def test_every_job_comes_to_its_end_in_every_mode_under_every_policy() -> None:
    pool = tuple((f"i-{number}", make_type(CPUS)) for number in range(INSTANCES))
    jobs = workload(7, 0.9, 25)
    for policy in QueuePolicy:
        for mode in ElasticMode:
            for backfill in (False, True):
                settings = ElasticSettings(policy=policy, backfill=backfill)
                world = World(types=pool, settings=settings)
                assert len(world.run(replace(job, mode=mode) for job in jobs)) == 25
