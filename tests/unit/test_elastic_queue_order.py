"""Rows of the design's semantics, §5, through the engine: in which order elastic jobs begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from longshore.dispatcher.domain.containers import ElasticSettings, QueuePolicy
from longshore.dispatcher.domain.jobs import ElasticMode, ElasticTerms, JobTypeSpec
from tests.rigs.elastic_jobs import (
    attempt_of,
    elastic,
    elastic_job,
    essential,
    rig_of,
    running,
    state_of,
    submit,
)
from tests.rigs.engine import Rig
from tests.samples import make_container


def full_rig(policy: QueuePolicy, *, backfill: bool = False) -> Rig:
    """Return an engine whose one instance of 3 cpus has a batch container on 2 of them."""
    rig = rig_of(3, elastic=ElasticSettings(policy=policy, backfill=backfill))
    rig.submit(make_container(1, cpus=2))
    assert rig.states() == {"c-1": "running"}
    return rig


@pytest.mark.parametrize("policy", QueuePolicy)
def test_the_first_by_the_policy_begins_when_there_is_room_for_one(policy: QueuePolicy) -> None:
    rig = full_rig(policy)
    for number, size, runtime_s in ((1, 2.0**41, 1000.0), (2, 2.0**33, 10.0)):
        job, containers = elastic_job(number, essential(2))
        terms = JobTypeSpec(elastic=ElasticTerms(size=size, runtime_s=runtime_s))
        rig.submit_job(replace(job, terms=terms), containers)
    assert (running(rig, 1), running(rig, 2)) == ({}, {})
    rig.advance(10)
    rig.exit("c-1-1")
    first, second = (1, 2) if policy is QueuePolicy.FIFO else (2, 1)
    assert (running(rig, first), running(rig, second)) == ({"e": 2}, {})


@pytest.mark.parametrize("backfill", [False, True])
def test_a_head_that_cannot_start_keeps_those_behind_it_waiting_unless_backfill(
    backfill: bool,
) -> None:
    rig = full_rig(QueuePolicy.FIFO, backfill=backfill)
    submit(rig, 1, essential(2))
    submit(rig, 2, essential(1))
    assert running(rig, 1) == {}
    assert running(rig, 2) == ({"e": 1} if backfill else {})


def test_a_running_job_that_cannot_grow_keeps_nobody_waiting() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(2, cpus=3))
    submit(rig, 2, essential(2))
    assert (running(rig, 1), running(rig, 2)) == ({"e": 1}, {"e": 2})


def test_four_rigid_jobs_of_10_s_on_10_cpus_end_at_10_20_30_and_40_s() -> None:
    rig = rig_of(10)
    began_at = rig.now
    for number, extras in enumerate((4, 3, 5, 2), 1):
        submit(rig, number, essential(3), elastic(extras), mode=ElasticMode.RIGID)
    ends = []
    for number, extras in enumerate((4, 3, 5, 2), 1):
        alone = {each: running(rig, each) for each in range(1, 5)}
        assert {each: found for each, found in alone.items() if found} == {
            number: {"e": 3, "w": extras}
        }
        rig.advance(10)
        for container in range(3 + extras):
            code = 0 if container < 3 else 143
            rig.exit(attempt_of(rig, 1000 * number + container), code=code)
        assert state_of(rig, number) == "succeeded"
        ends.append(rig.now - began_at)
    assert ends == [10, 20, 30, 40]
