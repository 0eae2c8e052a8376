"""The exposition: read off the engine's memory, every series gone with what it was about."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from dispatcher.messages import BehaviorRequested
from dispatcher.metrics import Metrics
from dispatcher.model import SchedulerSettings
from pool.model import IdleBehavior
from tests.engine_rig import Rig
from tests.samples import make_container, make_type


def samples(rig: Rig) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = Metrics(rig.engine).exposition(rig.now).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_instances_and_containers_by_category_and_state() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1), make_container(2))
    rig.advance(30)
    found = samples(rig)
    in_use = (("category", "in_use"), ("instance_type", "t1"))
    assert found["longshore_instances", in_use] == 1
    assert found["longshore_instances_price_usd_per_hour", in_use] == 0.123
    assert found["longshore_containers", (("state", "running"),)] == 1
    assert found["longshore_containers", (("state", "queued"),)] == 1
    assert found["longshore_longest_wait_seconds", ()] == rig.now
    rig.exit("c-1-1", 1)
    assert samples(rig)["longshore_attempts_total", (("outcome", "failed"),)] == 1


def test_series_of_what_is_gone_are_gone() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    assert ("longshore_instances", (("category", "hold"), ("instance_type", "t1"))) in samples(rig)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    rig.advance(5)
    assert not [key for key in samples(rig) if key[0] == "longshore_instances"]
