"""The order of elastic jobs under each policy, as literal tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import ElasticSettings, QueuePolicy
from longshore.dispatcher.scheduler.elastic.model import ElasticJob
from longshore.dispatcher.scheduler.elastic.order import in_order, size, waited_s
from longshore.drivers.interface import Resources
from tests.rigs.elastic import elastic, essential, make_job
from tests.samples import GIB

MIB = 2**20


def order(
    *jobs: ElasticJob, policy: QueuePolicy, now: float = 0.0, shrink: int = 256 * MIB
) -> list[int]:
    settings = ElasticSettings(policy=policy, dynsize_bytes_per_s=shrink)
    found = [job.sequence for job in in_order(jobs, settings, now)]
    assert found == [job.sequence for job in in_order(jobs[::-1], settings, now)]
    return found


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (QueuePolicy.FIFO, [1, 2, 3, 4]),
        (QueuePolicy.SIZE, [4, 2, 1, 3]),
        # 1 shrank by 100 x 256 MiB to nothing, 3 by 10 x 256 MiB; 2 and 4 have not waited.
        (QueuePolicy.DYNSIZE, [1, 4, 2, 3]),
        (QueuePolicy.SJF, [3, 2, 1, 4]),
        (QueuePolicy.SRPT, [1, 3, 2, 4]),
        # 1 has waited 100 s for 50 s of work: 3; 3 has waited 10 s for 10 s: 2; 2 not at all: 1.
        (QueuePolicy.HRRN, [1, 3, 2, 4]),
    ],
)
def test_each_policy_has_its_order(policy: QueuePolicy, expected: list[int]) -> None:
    jobs = [
        make_job(1, runtime_s=50.0, size=3.0 * GIB, progress=0.9),
        make_job(2, runtime_s=20.0, size=2.0 * GIB, submitted_at=100.0),
        make_job(3, runtime_s=10.0, size=9.0 * GIB, submitted_at=90.0),
        make_job(4, size=1.0 * GIB, submitted_at=100.0),
    ]
    assert order(*jobs, policy=policy, now=100.0) == expected


@pytest.mark.parametrize("policy", list(QueuePolicy))
def test_equal_jobs_are_taken_as_they_came(policy: QueuePolicy) -> None:
    jobs = [make_job(number, essential(1), runtime_s=5.0) for number in (10, 9, 2)]
    assert order(*jobs, policy=policy, now=3.0) == [2, 9, 10]


@pytest.mark.parametrize("policy", [QueuePolicy.SJF, QueuePolicy.SRPT, QueuePolicy.HRRN])
def test_a_job_without_an_estimate_comes_last(policy: QueuePolicy) -> None:
    jobs = [make_job(1), make_job(2, runtime_s=1e9), make_job(3)]
    assert order(*jobs, policy=policy, now=1e6) == [2, 1, 3]


def test_the_size_is_given_or_min_cores_by_min_memory_over_all_components() -> None:
    two_by_three = replace(essential(2), resources=Resources(cpu_millis=500, memory_bytes=3 * GIB))
    job = make_job(1, two_by_three, elastic(3))
    assert size(job) == (2 * 0.5 + 3) * (2 * 3 + 3) * GIB
    assert size(replace(job, size=7.0)) == 7.0


def test_dynsize_shrinks_by_256_mib_per_second_waited_and_is_clamped_at_0() -> None:
    old, new = make_job(2, size=1.0 * GIB), make_job(1, size=0.5 * GIB, submitted_at=10.0)
    at = QueuePolicy.DYNSIZE
    late = replace(new, submitted_at=0.0)
    assert [
        order(old, replace(new, submitted_at=now), policy=at, now=now) for now in (1, 2, 3)
    ] == [
        [1, 2],
        [1, 2],
        [2, 1],
    ]
    later = replace(late, id="j-3", sequence=3)
    assert order(old, later, policy=at, now=1.0) == [3, 2]
    assert order(old, later, policy=at, now=99.0) == [2, 3], "both are 0: as they came"
    assert order(old, new, policy=at, now=10.0, shrink=1) == [1, 2]
    assert order(old, new, policy=at, now=10.0, shrink=GIB) == [2, 1]


def test_a_job_that_runs_waits_no_more() -> None:
    job = make_job(1, submitted_at=10.0)
    assert (waited_s(job, 15.0), waited_s(job, 5.0)) == (5.0, 0.0)
    assert waited_s(replace(job, began_at=12.0), 99.0) == 2.0


def test_srpt_goes_by_what_remains_and_hrrn_by_the_highest_ratio() -> None:
    long, short = make_job(1, runtime_s=100.0, progress=0.95), make_job(2, runtime_s=10.0)
    assert order(long, short, policy=QueuePolicy.SRPT) == [1, 2]
    assert order(long, short, policy=QueuePolicy.HRRN, now=50.0) == [2, 1]
    at_once = make_job(3, runtime_s=0.0)
    assert order(long, short, at_once, policy=QueuePolicy.HRRN, now=50.0) == [3, 2, 1]
