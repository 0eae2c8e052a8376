"""The form of the exposition: told, finite, bounded, the same from the first scrape, and cheap."""

from __future__ import annotations

import math
import re
import subprocess
import time
from pathlib import Path

import pytest

from longshore.dispatcher.domain.containers import AttemptOutcome, ContainerState, SchedulerSettings
from longshore.dispatcher.domain.jobs import JobState
from longshore.dispatcher.domain.ledger import BilledState
from longshore.dispatcher.domain.views import ProblemKind
from longshore.dispatcher.scheduler.system.crash_loop import CODES
from longshore.dispatcher.state.agenda import LaunchResult
from longshore.pool.leaks import LeakKind
from longshore.pool.model import PoolSettings, WorkerState
from longshore.pool.statistics import BootOutcome, Operation, OperationOutcome, ProbeOutcome
from tests.conftest import RequireTool
from tests.exposition import Key, families, samples, text_of, value
from tests.rigs.engine import Rig
from tests.samples import make_container, make_type

OPERATIONS = Path(__file__).resolve().parents[2] / "docs" / "operations.md"

STATES = (WorkerState, ContainerState, JobState, BilledState)

# Every label with all that it may say; types are those of the configuration, and one word.
LABELS: dict[str, set[str]] = {
    "budget": {"vision-month"},
    "category": {"in_use", "hold", "booting", "unknown", "idle", "shutdown"},
    "code": set(CODES),
    "instance_type": {"t1", "t2", "not configured"},
    "directory": {"logs", "store"},
    "file": {"database", "wal"},
    "kind": {kind.value for kinds in (LeakKind, ProblemKind) for kind in kinds},
    "operation": {operation.value for operation in Operation},
    "outcome": {
        outcome.value
        for kind in (BootOutcome, OperationOutcome, ProbeOutcome, AttemptOutcome)
        for outcome in kind
    },
    "project": {"(none)", "p"},
    "result": {result.value for result in LaunchResult},
    "state": {
        *(state.value for kind in STATES for state in kind),
        "held",
    },
    "type": {"system", "sysbatch", "elastic"},
    "why": {"after", "budget", "earlier_attempt", "job_held", "max_running", "secrets", "time"},
}


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
    rig = eventful()
    text = text_of(rig)
    names = {family.name: family for family in families(rig)}
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
    """Only what is said by type, and a limit, come and go: a rate sees the first event, too."""
    at_first = steady(Rig(make_type(1), make_type(2)))
    assert at_first == steady(eventful())
    assert len(at_first) > 100


def steady(rig: Rig) -> set[Key]:
    return {
        (name, labels)
        for name, labels in samples(rig)
        if "instance_type" not in dict(labels) and name != "longshore_concurrency_limit"
    }


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


def test_the_process_itself_is_told_and_so_is_the_page_of_it() -> None:
    text = text_of(Rig(make_type(1)))
    named = re.findall(r"`(process_\w+)`", OPERATIONS.read_text())
    assert {*named} == {
        *("process_resident_memory_bytes", "process_virtual_memory_bytes"),
        *(f"{'process_cpu_seconds'}_total", "process_start_time_seconds"),
        *("process_open_fds", "process_max_fds"),
    }
    for name in named:
        assert re.search(rf"^{name} \d", text, re.MULTILINE), name


# ---- cost -----------------------------------------------------------------------------------


@pytest.mark.alone
def test_a_scrape_of_a_thousand_instances_and_ten_thousand_containers_is_quick() -> None:
    """It holds the event loop up. Measured: 5 to 10 ms, more when others use the cpus."""
    rig = Rig(
        make_type(1),
        settings=SchedulerSettings(max_instances=1000),
        pool=PoolSettings(
            max_concurrent_creates=1000, max_cloud_ops_per_second=1000, max_probes_per_second=1000
        ),
    )
    rig.engine.check = lambda: None  # type: ignore[method-assign] # - costs more than all the rest
    rig.submit(*(make_container(n) for n in range(1, 11_001)))
    rig.advance(2)
    assert value(rig, "longshore_containers", state="running") == 1000
    taken_s = []
    for _ in range(5):
        began = time.perf_counter()
        text_of(rig)
        taken_s.append(time.perf_counter() - began)
    assert min(taken_s) < 0.1, taken_s


# ---- another reader -------------------------------------------------------------------------


@pytest.mark.real
def test_prometheus_own_tool_finds_nothing_wrong(require_tool: RequireTool) -> None:
    command = [require_tool("promtool", "prometheus"), "check", "metrics"]
    told = subprocess.run(
        command, input=text_of(eventful()), capture_output=True, text=True, check=False, timeout=60
    )
    assert (told.returncode, told.stdout + told.stderr) == (0, "")
