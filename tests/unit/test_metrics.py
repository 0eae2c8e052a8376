"""The exposition: read off the engine's memory, every series gone with what it was about."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from dispatcher.messages import BehaviorRequested
from dispatcher.metrics import Metrics
from dispatcher.model import AttemptOutcome, ContainerState, SchedulerSettings
from drivers.errors import QuotaError
from pool.leaks import LeakKind
from pool.messages import CreateInstance, DestroyInstance, Probe, SessionLost, StartAttempt
from pool.model import IdleBehavior, PoolSettings, WorkerState
from pool.statistics import BootOutcome, Operation, OperationOutcome, ProbeOutcome
from tests.engine_rig import Rig, last_commands
from tests.samples import make_container, make_type

OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"

# Every label with all that it may say; types are those of the configuration, and one word.
LABELS: dict[str, set[str]] = {
    "category": {"in_use", "hold", "booting", "unknown", "idle", "shutdown"},
    "instance_type": {"t1", "t2", "not configured"},
    "kind": {kind.value for kind in LeakKind},
    "operation": {operation.value for operation in Operation},
    "outcome": {
        outcome.value
        for kind in (BootOutcome, OperationOutcome, ProbeOutcome, AttemptOutcome)
        for outcome in kind
    },
    "state": {state.value for kind in (WorkerState, ContainerState) for state in kind},
}


def text_of(rig: Rig, heard_at: float = 0.0) -> str:
    metrics = Metrics(rig.engine, heard_at=lambda _worker_id: heard_at)
    return metrics.exposition(rig.now).decode()


def families(rig: Rig) -> list[Metric]:
    return list(text_string_to_metric_families(text_of(rig)))


def samples(
    rig: Rig, heard_at: float = 0.0
) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text_of(rig, heard_at))
        for sample in family.samples
    }


def value(rig: Rig, name: str, **labels: str) -> float:
    return samples(rig)[name, tuple(sorted(labels.items()))]


def eventful() -> Rig:
    """Return a rig in which there is something of everything."""
    rig = Rig(make_type(1), make_type(2), settings=SchedulerSettings(max_instances=4))
    rig.boot("t9")
    rig.submit(*(make_container(n) for n in range(1, 9)))
    rig.advance(65)
    rig.exit("c-1-1", 1)
    rig.advance(1)
    return rig


# ---- the form of it -----------------------------------------------------------------------------


def test_every_metric_has_its_help_and_type_and_a_name_of_ours() -> None:
    text = text_of(eventful())
    names = {family.name: family for family in text_string_to_metric_families(text)}
    assert len(names) > 20
    for name, family in names.items():
        exposed = f"{name}_total" if family.type == "counter" else name
        assert re.fullmatch(r"longshore_[a-z_]+", name)
        assert f"# HELP {exposed} " in text
        assert f"# TYPE {exposed} {family.type}" in text
        assert family.type in ("counter", "gauge", "histogram")
        assert family.documentation.endswith(".")
        assert family.documentation.count(". ") == 0


def test_no_value_is_missing_and_labels_are_those_that_are_known() -> None:
    for family in families(eventful()):
        for sample in family.samples:
            assert math.isfinite(sample.value), sample
            for label, said in sample.labels.items():
                if label != "le":
                    assert said in LABELS[label], sample


def test_histograms_add_up() -> None:
    for family in families(eventful()):
        if family.type != "histogram":
            continue
        buckets = [s for s in family.samples if s.name.endswith("_bucket")]
        counts = {
            tuple(sorted(s.labels.items())): s.value
            for s in family.samples
            if s.name.endswith("_count")
        }
        last: dict[tuple[tuple[str, str], ...], float] = {}
        for sample in buckets:
            labels = {k: v for k, v in sample.labels.items() if k != "le"}
            key = tuple(sorted(labels.items()))
            assert sample.value >= last.get(key, 0.0), "they are cumulative"
            last[key] = sample.value
        assert last == counts
        assert {s.labels["le"] for s in buckets if s.labels["le"] == "+Inf"}


def test_the_same_series_are_there_from_the_first_scrape() -> None:
    """Only what is said by type comes and goes; an alert on a rate sees the first event."""
    rig = Rig(make_type(1), make_type(2))
    at_first = {key for key in samples(rig) if "instance_type" not in dict(key[1])}
    later = {key for key in samples(eventful()) if "instance_type" not in dict(key[1])}
    assert at_first == later


def test_the_table_of_metrics_is_complete_and_true() -> None:
    text = OPERATIONS.read_text()
    section = text.partition("\n### Metrics\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    told = {name for row in rows for name in re.findall(r"`(longshore_\w+)`", row)}
    exposed = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in families(eventful())
    }
    assert told == exposed


# ---- instances ------------------------------------------------------------------------------


def test_instances_and_containers_by_category_and_state() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=1))
    rig.submit(make_container(1), make_container(2))
    rig.advance(30)
    found = samples(rig)
    in_use = (("category", "in_use"), ("instance_type", "t1"))
    assert found["longshore_instances", in_use] == 1
    assert found["longshore_instances_price_usd_per_hour", in_use] == 0.123
    assert found["longshore_instances_cpus", in_use] == 1
    assert found["longshore_instances_memory_bytes", in_use] == 2**30 * 11 // 10
    assert found["longshore_containers", (("state", "running"),)] == 1
    assert found["longshore_containers", (("state", "queued"),)] == 1
    assert found["longshore_longest_wait_seconds", ()] == rig.now
    rig.exit("c-1-1", 1)
    assert samples(rig)["longshore_attempts_total", (("outcome", "failed"),)] == 1


def test_every_category() -> None:
    rig = Rig(make_type(1))
    rig.silent |= {Probe, DestroyInstance}
    rig.submit(make_container(1))
    rig.advance(3)
    seen = [categories(rig)]
    rig.probe_now(last_commands(rig, Probe)[-1])
    rig.settle()
    seen.append(categories(rig))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    seen.append(categories(rig))
    rig.exit("c-1-1")
    seen.append(categories(rig))
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.RUN))
    seen.append(categories(rig))
    rig.advance(61)
    seen.append(categories(rig))
    assert [list(each) for each in seen] == [
        ["booting"],
        ["in_use"],
        ["in_use"],
        ["hold"],
        ["idle"],
        ["shutdown"],
    ]
    assert {number for each in seen for number in each.values()} == {1}
    rig.boot("t1")
    rig.advance(61)
    assert "unknown" in categories(rig)


def categories(rig: Rig) -> dict[str, float]:
    return {
        dict(labels)["category"]: number
        for (name, labels), number in samples(rig).items()
        if name == "longshore_instances"
    }


def test_series_of_what_is_gone_are_gone() -> None:
    rig = Rig(make_type(1))
    rig.submit(make_container(1))
    rig.exit("c-1-1")
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.HOLD))
    assert ("longshore_instances", (("category", "hold"), ("instance_type", "t1"))) in samples(rig)
    rig.send(BehaviorRequested(worker_id="i-001", behavior=IdleBehavior.DRAIN))
    rig.advance(5)
    assert not [key for key in samples(rig) if "instance_type" in dict(key[1])]


def test_types_that_are_not_configured_share_one_series() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(Probe)
    rig.boot("t7")
    rig.boot("t8")
    rig.advance(61)
    assert (
        value(rig, "longshore_instances", category="unknown", instance_type="not configured") == 2
    )


def test_probe_ages_are_those_of_ready_instances_since_they_were_last_heard() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=3))
    assert value(rig, "longshore_probe_age_max_seconds") == 0
    rig.submit(make_container(1), make_container(2), make_container(3))
    ready_at = rig.now
    rig.silent.add(Probe)
    rig.boot("t1")
    rig.advance(100)
    rig.send(SessionLost(worker_id="i-001", last_contact=ready_at, reason="test"))
    assert len(rig.worker_states()) == 4
    heard = {"i-001": 0.0, "i-002": rig.now - 20, "i-003": rig.now - 5}
    text = Metrics(rig.engine, heard_at=lambda id_: heard.get(id_, 0.0)).exposition(rig.now)
    found = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
    assert found["longshore_probe_age_max_seconds"] == 100
    assert found["longshore_probe_age_median_seconds"] == 20


# ---- containers -----------------------------------------------------------------------------


def test_allocated_and_over_quota() -> None:
    rig = Rig(make_type(1), settings=SchedulerSettings(max_instances=2))
    rig.silent.add(CreateInstance)
    rig.submit(*(make_container(n) for n in range(1, 6)))
    rig.submit(make_container(6, cpus=0.5, priority=1), make_container(7, priority=0))
    assert value(rig, "longshore_containers_allocated_not_started") == 2
    assert value(rig, "longshore_containers_not_allocated_over_quota") == 4
    rig.silent.add(StartAttempt)
    for command in last_commands(rig, CreateInstance):
        rig.create_now(command)
    rig.settle()
    assert value(rig, "longshore_containers_allocated_not_started") == 2, "no start is confirmed"
    for start in last_commands(rig, StartAttempt):
        rig.start_now(start)
    assert value(rig, "longshore_containers_allocated_not_started") == 0
    assert value(rig, "longshore_containers", state="running") == 2
    assert value(rig, "longshore_containers_not_allocated_over_quota") == 4


def test_at_quota_only_while_the_quota_holds() -> None:
    rig = Rig(make_type(1), pool=PoolSettings(quota_hold_s=60))
    assert value(rig, "longshore_at_quota") == 0
    rig.create_error = lambda _command: QuotaError("no more")
    rig.submit(make_container(1), make_container(2))
    assert value(rig, "longshore_at_quota") == 1
    assert value(rig, "longshore_containers_allocated_not_started") == 1, "the next in line"
    assert value(rig, "longshore_containers_not_allocated_over_quota") == 1
    rig.create_error = lambda _command: None
    rig.advance(61)
    assert value(rig, "longshore_at_quota") == 0
    assert value(rig, "longshore_containers_not_allocated_over_quota") == 0


def started(rig: Rig) -> tuple[float, float]:
    return (
        value(rig, "longshore_queue_to_start_seconds_count"),
        value(rig, "longshore_queue_to_start_seconds_sum"),
    )


def test_queue_to_start_counts_from_the_queue_to_the_confirmation_for_each_attempt() -> None:
    rig = Rig(make_type(1))
    rig.now += 1000
    rig.silent.add(StartAttempt)
    queued = make_container(1)
    rig.submit(queued)
    rig.advance(7)
    assert value(rig, "longshore_longest_wait_seconds") == rig.now
    assert started(rig) == (0, 0)
    rig.start_now(last_commands(rig, StartAttempt)[-1])
    assert started(rig) == (1, rig.now)
    assert value(rig, "longshore_longest_wait_seconds") == 0
    rig.cloud.clear()
    rig.silent.discard(StartAttempt)
    rig.silent.add(CreateInstance)
    rig.advance(61)
    assert rig.states() == {"c-1": "locked"}
    lost_at = rig.attempts["c-1-1"].finished_at or 0.0
    rig.advance(9)
    assert value(rig, "longshore_longest_wait_seconds") == rig.now - lost_at
    rig.create_now(last_commands(rig, CreateInstance)[-1])
    rig.settle()
    assert started(rig) == (2, (rig.now - lost_at) + 2007)


def test_a_container_that_is_held_back_does_not_wait() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(CreateInstance)
    rig.submit(make_container(1, priority=0))
    assert value(rig, "longshore_longest_wait_seconds") == 0
    rig.advance(50)
    rig.set_priority("c-1", 10)
    rig.advance(5)
    rig.set_priority("c-1", 20)
    rig.advance(5)
    assert value(rig, "longshore_longest_wait_seconds") == 10
    rig.cancel("c-1")
    assert value(rig, "longshore_longest_wait_seconds") == 0


def test_a_start_that_a_restart_finds_is_timed_from_the_queue() -> None:
    rig = Rig(make_type(1))
    rig.silent.add(StartAttempt)
    rig.submit(make_container(1))
    rig.advance(5)
    rig.silent.discard(StartAttempt)
    rig.start_now(last_commands(rig, StartAttempt)[-1])
    running = rig.attempts["c-1-1"].started_at
    assert running is not None
    rig.crash()
    rig.advance(1)
    assert rig.states() == {"c-1": "running"}
    assert started(rig) == (0, 0), "an earlier process counted it"
    assert value(rig, "longshore_longest_wait_seconds") == 0


# ---- cost -----------------------------------------------------------------------------------


@pytest.mark.alone
def test_a_scrape_of_a_thousand_instances_and_ten_thousand_containers_is_quick() -> None:
    """It holds the event loop up. Measured: 5 to 8 ms."""
    rig = Rig(
        make_type(1),
        settings=SchedulerSettings(max_instances=1000),
        pool=PoolSettings(max_concurrent_creates=1000),
    )
    rig.engine.check = lambda: None  # type: ignore[method-assign] # - costs more than all the rest
    rig.submit(*(make_container(n) for n in range(1, 11_001)))
    assert value(rig, "longshore_containers", state="running") == 1000
    taken_s = []
    for _ in range(5):
        began = time.perf_counter()
        text_of(rig)
        taken_s.append(time.perf_counter() - began)
    assert min(taken_s) < 0.1, taken_s
