"""Elastic jobs through the engine: rows of their semantics, on instances that are there."""

from __future__ import annotations

from pool.messages import ListInstances
from tests.elastic_jobs_rig import attempt_of, elastic, essential, running, state_of, submit
from tests.engine_rig import Rig
from tests.samples import make_type


def rig_of(*cpus: int) -> Rig:
    """Return an engine with instances of so many cpus that stay, and can create no others."""
    types = {each: make_type(each) for each in cpus}
    rig = Rig(*types.values(), listed=False)
    for each in cpus:
        rig.boot(types[each].name, longshore_idle_behavior="run")
    rig.silent.discard(ListInstances)
    rig.list_now(1)
    rig.settle()
    return rig


def test_a_job_whose_essential_container_exits_well_succeeds_with_all_that_ran_beside_it() -> None:
    rig = rig_of(3)
    submit(rig, 1, essential(1), elastic(1))
    assert running(rig) == {"e": 1, "w": 1}
    rig.exit(attempt_of(rig, 1000))
    rig.exit(attempt_of(rig, 1001), code=143)
    assert state_of(rig) == "succeeded"
    assert rig.states() == {"c-1000": "succeeded", "c-1001": "cancelled"}
