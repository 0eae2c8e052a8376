"""Limits of spending in the engine: what waits says so, and goes on by itself with money."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal

import pytest

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.queries import Recovered
from longshore.dispatcher.metrics.exposition import Metrics
from longshore.dispatcher.scheduler.placement import fleet_sync
from longshore.dispatcher.scheduler.placement.fleet import Slot
from longshore.dispatcher.service.running_work import running_work
from longshore.dispatcher.state.spend_limits import SpendSubject
from longshore.drivers.errors import AmbiguousResult, BugError, CapacityError, ErrorScope
from longshore.drivers.interface import Resources
from longshore.pool.messages import CreateInstance, ListInstances, Probe
from longshore.pool.model import Worker
from longshore.pool.timers import TimerKind
from tests.rigs.engine import Rig, last_commands
from tests.samples import GIB, make_container, make_type
from tests.unit.test_spend import settings

T1, T4 = make_type(1, price="0.1"), make_type(4, price="0.4")
ALPHA = SpendSubject("project", "alpha")


def owned(number: int, *, cpus: int = 4, project: str = "alpha") -> Container:
    return replace(make_container(number, cpus=cpus), project=project)


def rig_with(cluster: str = "", projects: Mapping[str, str] | None = None) -> Rig:
    return Rig(T1, T4, settings=settings(cluster, projects))


def why(rig: Rig, container_id: str) -> str:
    reason = rig.engine.why_waiting(container_id)
    assert reason is not None
    return f"{reason.code}: {reason.message}"


def spent(rig: Rig) -> Decimal:
    assert rig.engine.scheduling.spend is not None
    return rig.engine.scheduling.spend.total


def test_what_waits_for_the_cluster_says_so_and_goes_on_when_an_instance_ends() -> None:
    rig = rig_with("0.7")
    rig.submit(owned(1), owned(2), owned(3))
    assert rig.created_types() == ["t4"]
    assert why(rig, "c-2") == (
        "spend_limit: the cluster may spend $0.70/h (max_hourly_spend) and spends $0.40/h; the "
        "cheapest instance that would do costs $0.40/h"
    )
    assert why(rig, "c-3").startswith("spend_limit: "), "of one class, for the same cause"
    rig.submit(owned(4, cpus=1, project="beta"))
    assert why(rig, "c-4").startswith("behind: behind c-2")
    worker_id = rig.started_on()["c-1"]
    rig.advance(5.0)
    del rig.cloud[worker_id]
    rig.advance(150.0)
    assert worker_id not in rig.engine.pool.workers
    assert rig.created_types() == ["t4", "t4"], "the listing that lacks it makes the next pass"
    assert spent(rig) == Decimal("0.4")


def test_an_idle_instance_that_is_of_no_use_is_given_up_for_the_limit() -> None:
    rig = rig_with("0.4")
    rig.submit(owned(1, cpus=1))
    assert rig.created_types() == ["t1"]
    rig.exit("c-1-1")
    rig.submit(owned(2))
    rig.advance(60.0)
    assert rig.created_types() == ["t1", "t4"]
    assert rig.states()["c-2"] == "running"


def test_an_instance_that_is_being_shut_down_is_billed_until_it_is_gone() -> None:
    rig = rig_with("0.4")
    rig.submit(owned(1, cpus=1))
    rig.exit("c-1-1")
    rig.silent.add(ListInstances)
    rig.submit(owned(2))
    assert rig.worker_states() == {"i-001": "shutdown"}
    assert spent(rig) == Decimal("0.1")
    assert rig.created_types() == ["t1"]


def test_creates_in_flight_and_those_in_doubt_are_counted() -> None:
    rig = rig_with("0.7")
    rig.silent.add(CreateInstance)
    rig.submit(owned(1))
    assert spent(rig) == Decimal("0.4")
    rig.submit(owned(2))
    assert rig.created_types() == ["t4"]
    rig.silent.remove(CreateInstance)
    rig.create_error = lambda _command: AmbiguousResult("the answer was lost")
    (create,) = (c for c in rig.sent if isinstance(c, CreateInstance))
    rig.create_now(create)
    rig.settle()
    assert spent(rig) == Decimal("0.4"), "it may be there"
    assert rig.created_types() == ["t4"]
    rig.create_error = lambda _command: None
    rig.advance(30.0)
    assert rig.created_types() == ["t4", "t4"], "no listing has shown it"


def test_a_create_that_failed_costs_nothing_any_more() -> None:
    rig = rig_with("0.7", {"alpha": "0.7"})
    rig.create_error = lambda _command: CapacityError("none left", scope=ErrorScope.TYPE)
    rig.submit(owned(1))
    assert spent(rig) == 0
    assert rig.engine.scheduling.spend is not None
    rig.advance(5.0)
    assert rig.engine.scheduling.spend.charges == {}


def test_a_project_is_charged_in_full_until_its_instance_is_ready_and_then_by_share() -> None:
    rig = rig_with(projects={"alpha": "0.5"})
    rig.silent.add(Probe)
    rig.submit(owned(1))
    rig.submit(owned(2, cpus=1))
    assert rig.created_types() == ["t4", "t1"]
    rig.submit(owned(3, cpus=1), owned(4, cpus=1, project="beta"))
    assert why(rig, "c-3") == (
        "spend_limit: project alpha may spend $0.50/h (max_hourly_spend_per_project) and spends "
        "$0.50/h; the cheapest instance that would do costs $0.10/h"
    )
    assert why(rig, "c-4").startswith("instance_coming: "), "others go on"


def test_when_attempts_end_their_project_goes_on() -> None:
    rig = rig_with(projects={"alpha": "0.4"})
    rig.submit(owned(1), owned(2))
    assert rig.engine.table.spend.by_subject == {ALPHA: Decimal("0.4")}
    assert why(rig, "c-2").startswith("spend_limit: project alpha may spend $0.40/h")
    rig.exit("c-1-1")
    assert rig.states()["c-2"] == "running"
    assert rig.created_types() == ["t4"], "on the same instance"


def test_two_that_fill_an_instance_cost_their_project_no_more_than_it() -> None:
    rig = rig_with(projects={"alpha": "0.4"})
    rig.submit(needing(1, cpu_millis=3600, memory_bytes=GIB // 8))
    rig.submit(needing(2, cpu_millis=400, memory_bytes=T4.allocatable.memory_bytes // 8 * 7))
    assert set(rig.started_on()) == {"c-1", "c-2"}, "0.9 and 0.875 of a t4 are one"
    assert rig.engine.table.spend.by_subject[ALPHA] <= Decimal("0.4")
    rig.crash()
    assert Decimal("0.399999") < rig.engine.table.spend.by_subject[ALPHA] <= Decimal("0.4")


def test_what_runs_on_one_instance_commits_no_more_than_it_costs() -> None:
    rig = Rig(T4)
    rig.submit(needing(1, cpu_millis=3600, memory_bytes=GIB // 8))
    rig.submit(needing(2, cpu_millis=400, memory_bytes=T4.allocatable.memory_bytes // 8 * 7))
    works = running_work(rig.view, rig.now)
    assert [each.nusd_per_hour for each in works] == [202_816_901, 197_183_099]


def needing(number: int, *, cpu_millis: int, memory_bytes: int) -> Container:
    container = owned(number)
    resources = Resources(cpu_millis=cpu_millis, memory_bytes=memory_bytes)
    return replace(container, spec=replace(container.spec, resources=resources))


def charges(rig: Rig) -> dict[str, tuple[str, ...]]:
    """Return by slot whose limits what is not ready yet counts against."""
    assert rig.engine.scheduling.spend is not None
    found = rig.engine.scheduling.spend.charges
    return {slot: tuple(subject.name for subject in each.account) for slot, each in found.items()}


def crashed_while_its_instance_boots(*, hidden: bool) -> Rig:
    """Return a rig after a crash: c-1 runs, and a t4 boots for c-2; `hidden` from listings."""
    rig = rig_with("2", {"alpha": "0.5"})
    rig.submit(owned(1, cpus=1))
    rig.silent.add(Probe)
    rig.submit(owned(2))
    assert charges(rig) == {"i-002": ("alpha",)}
    if hidden:
        rig.hidden.add("i-002")
        rig.unreachable.add("i-002")
    rig.crash(listed=False)
    assert rig.engine.table.spend.by_subject == {ALPHA: Decimal("0.1")}
    assert spent(rig) == Decimal("0.5"), "what is missing is billed at its price in the store"
    rig.silent.remove(ListInstances)
    rig.list_now(last_commands(rig, ListInstances)[-1].op_id)
    rig.settle()
    return rig


def test_after_a_restart_an_instance_that_boots_is_charged_to_whom_it_was_bought_for() -> None:
    rig = crashed_while_its_instance_boots(hidden=False)
    assert charges(rig) == {"i-002": ("alpha",)}
    rig.submit(owned(3))
    assert last_commands(rig, CreateInstance) == []
    assert why(rig, "c-3").startswith("spend_limit: project alpha may spend $0.50/h")
    rig.silent.clear()
    for probe in last_commands(rig, Probe):
        rig.probe_now(probe)
    rig.settle()
    assert charges(rig) == {}, "it is ready"
    assert rig.states()["c-2"] == "running"
    rig.crash()
    assert charges(rig) == {}, "and was"


def test_after_a_restart_what_listings_lack_is_charged_as_long_as_it_may_come() -> None:
    rig = crashed_while_its_instance_boots(hidden=True)
    assert spent(rig) == Decimal("0.5"), "its launch and itself are one"
    assert charges(rig) == {"i-002": ("alpha",)}
    rig.advance(100)
    assert charges(rig) == {"i-002": ("alpha",)}, "it is in the store"
    assert spent(rig) == Decimal("0.5")
    rig.hidden.clear()
    del rig.cloud["i-002"]
    rig.advance(11)
    assert "i-002" not in charges(rig)


def test_a_limit_that_is_gone_after_a_restart_charges_nobody() -> None:
    rig = rig_with("2", {"alpha": "0.5"})
    rig.silent.add(Probe)
    rig.submit(owned(1))
    assert charges(rig) == {"i-001": ("alpha",)}
    rig.settings = settings("2")
    rig.crash()
    assert charges(rig) == {}
    assert spent(rig) == Decimal("0.4")


def test_a_pass_that_failed_half_way_leaves_nothing_counted_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig = rig_with("2")
    rig.submit(owned(1), owned(2))
    assert spent(rig) == Decimal("0.8")
    rig.advance(30)
    was, failures = fleet_sync.slot_of, iter([True])

    def slot_of(worker: Worker) -> Slot:
        if next(failures, False):
            raise RuntimeError("half-way")
        return was(worker)

    monkeypatch.setattr(fleet_sync, "slot_of", slot_of)
    monkeypatch.setattr(rig.engine, "check", lambda: None)
    del rig.cloud["i-002"]
    rig.engine.pool.touch("i-001")
    rig.engine.pool.timers.set(TimerKind.LIST, "", rig.now)
    rig.settle()
    assert rig.engine.scheduling.failures == 1
    assert "i-002" not in rig.engine.pool.workers
    rig.advance(1)
    assert spent(rig) == sum(
        (w.type.price_usd_per_hour for w in rig.engine.pool.workers.values()), Decimal(0)
    )
    monkeypatch.undo()
    rig.engine.check()


def test_the_check_finds_a_price_that_is_not_counted() -> None:
    rig = rig_with("2")
    rig.submit(owned(1))
    worker = next(iter(rig.engine.pool.workers.values()))
    worker.type = T1
    with pytest.raises(BugError, match="the price of i-001"):
        rig.engine.scheduling.spend.check()  # type: ignore[union-attr]  # there is a limit


def test_without_limits_nothing_is_added_up() -> None:
    rig = Rig(T1, recovered=Recovered())
    rig.submit(owned(1, cpus=1))
    assert rig.engine.scheduling.spend is None
    assert rig.engine.table.spend.by_subject == {}
    assert rig.engine.scheduling.view(rig.now).limits.budget is None


def test_what_is_spent_and_the_limit_are_metrics() -> None:
    rig = rig_with("0.7")
    rig.submit(owned(1))
    shown = Metrics(rig.view, heard_at=lambda _: 0.0).exposition(rig.now).decode()
    assert "longshore_hourly_spend_usd 0.4\n" in shown
    assert "longshore_hourly_spend_limit_usd 0.7\n" in shown
    unlimited = Metrics(Rig(T1).view, heard_at=lambda _: 0.0).exposition(0.0).decode()
    assert "\nlongshore_hourly_spend" not in unlimited
