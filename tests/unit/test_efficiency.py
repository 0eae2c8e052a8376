"""What work asks for against what it takes: what is suggested, saved, and told to whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from longshore.dispatcher.api.schemas.efficiency import (
    EfficiencyItem,
    SavingAnswer,
    SuggestionAnswer,
)
from longshore.dispatcher.cli.commands.efficiency import advice
from longshore.dispatcher.domain.containers import (
    AttemptOutcome,
    Constraints,
    ContainerState,
    Placement,
)
from longshore.dispatcher.domain.efficiency import EfficiencyFilter, MeasuredRun
from longshore.dispatcher.domain.messages import SaveAttempt, SaveContainer
from longshore.dispatcher.domain.principals import Door, Principal, Role
from longshore.dispatcher.explain.efficiency import (
    ENOUGH_RUNS,
    Efficiency,
    Market,
    efficiency_of,
    percentile,
)
from longshore.dispatcher.store import usage_reader
from longshore.dispatcher.store.store import Store
from longshore.drivers.interface import InstanceType, Resources
from longshore.pool.usage import AttemptUsage
from tests.answers import told
from tests.rigs.api import ApiRig
from tests.store_values import SPEC, attempt, container, insert, insert_job, job, new_store, task

GIB = 2**30
HOUR_S = 3600.0


def type_of(name: str, cpus: int, gib: int, price: str, **more: Any) -> InstanceType:
    return InstanceType(
        name=name,
        provider_type=name,
        resources=Resources(cpu_millis=cpus * 1000, memory_bytes=gib * GIB),
        price_usd_per_hour=Decimal(price),
        **more,
    )


SMALL = type_of("small", 2, 4, "0.10")
LARGE = type_of("large", 4, 32, "0.80")


def market(*types: InstanceType, placement: Placement = Placement.EXCLUSIVE) -> Market:
    return Market(types=types, as_new={each.name: each for each in types}, placement=placement)


def run(peak_bytes: int | None = GIB, cpu_seconds: float | None = 1800.0, **more: Any) -> Any:
    """Return a run of an hour that asks for 2 cpus and 16 GiB."""
    resources = Resources(cpu_millis=2000, memory_bytes=16 * GIB)
    values: dict[str, Any] = {
        "user": "ann",
        "project": "a",
        "name": "align",
        "task": "",
        "spec": replace(SPEC, resources=resources),
        "given": resources,
        "usage": AttemptUsage(peak_memory_bytes=peak_bytes, cpu_seconds=cpu_seconds),
        "ran_s": HOUR_S,
    }
    return MeasuredRun(**{**values, **more})


def only(runs: list[MeasuredRun], seen: Market | None = None) -> Efficiency:
    (found,) = efficiency_of(runs, seen or market(SMALL, LARGE))
    return found


def test_the_percentile_is_one_of_the_values() -> None:
    assert percentile([5.0]) == 5.0
    assert percentile(range(1, 21)) == 19
    assert percentile(range(100, 0, -1)) == 95


def test_enough_runs_tell_what_to_ask_for_and_what_that_saves() -> None:
    peaks = [GIB] * 19 + [15 * GIB]
    found = only([run(each) for each in peaks])
    assert (found.runs, found.runs_missing) == (20, 0)
    assert (found.peak_memory_p95_bytes, found.cpus_p95) == (GIB, 0.5)
    assert found.suggested_memory_bytes == 1229 * 2**20  # 1.2 times as much, in whole MiB
    assert found.suggested_cpu_millis == 600
    assert found.saving is not None
    assert (found.saving.now, found.saving.instead) == ("large", "small")
    assert found.saving.usd == Decimal("0.70") * 20


def test_too_few_runs_tell_how_many_more_it_takes() -> None:
    found = only([run()] * (ENOUGH_RUNS - 1))
    assert (found.runs, found.runs_missing) == (19, 1)
    assert found.peak_memory_p95_bytes == GIB
    assert (found.suggested_memory_bytes, found.suggested_cpu_millis) == (None, None)
    assert found.saving is None


def test_what_was_not_measured_is_neither_0_nor_a_reason_to_ask_for_less() -> None:
    found = only([run(None, None)] * 30)
    assert (found.peak_memory_p95_bytes, found.cpus_p95) == (None, None)
    assert (found.suggested_memory_bytes, found.suggested_cpu_millis) == (None, None)
    assert found.runs_missing == ENOUGH_RUNS
    part = only([run(None)] * 30)
    assert (part.suggested_memory_bytes, part.suggested_cpu_millis) == (None, 600)
    assert part.runs_missing == 0
    few = only([run()] * 19 + [run(None)] * 11)
    assert (few.suggested_memory_bytes, few.suggested_cpu_millis) == (None, 600)


def test_who_uses_what_they_ask_for_is_told_nothing() -> None:
    found = only([run(15 * GIB, 2 * HOUR_S)] * 20)
    assert (found.suggested_memory_bytes, found.suggested_cpu_millis) == (None, None)
    assert found.saving is None


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (market(LARGE), "the cheaper one cannot be bought now"),
        (market(SMALL), "what is asked now fits nothing"),
        (market(replace(SMALL, price_usd_per_hour=Decimal(0)), LARGE), "a price of 0 is none"),
        (market(replace(SMALL, price_usd_per_hour=Decimal("0.8")), LARGE), "it is not cheaper"),
        (market(type_of("narrow", 2, 1, "0.10"), LARGE), "what is suggested does not fit"),
        (
            market(type_of("tight", 2, 2, "0.75"), LARGE, placement=Placement.PACKED),
            "the share of the cheaper one costs more",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_no_money_is_told_where_nothing_cheaper_follows(seen: Market, why: str) -> None:
    found = only([run()] * 20, seen)
    assert found.suggested_memory_bytes is not None
    assert found.saving is None, why


def test_no_money_is_told_where_the_request_rules_the_cheaper_type_out() -> None:
    spec = replace(run().spec, constraints=Constraints(instance_types=("large",)))
    assert only([run(spec=spec)] * 20).saving is None


def test_a_new_instance_must_have_room_beside_daemons() -> None:
    left = replace(SMALL, reserve=Resources(memory_bytes=3 * GIB))
    seen = replace(market(SMALL, LARGE), as_new={"small": left, "large": LARGE})
    assert only([run()] * 20, seen).saving is None


def test_kinds_of_work_are_told_apart_and_what_saves_most_comes_first() -> None:
    less = Resources(cpu_millis=1000, memory_bytes=GIB)
    runs = [run(name="zeal", given=less)] * 40 + [run(user="bob")] * 20 + [run()] * 21
    found = efficiency_of(runs, market(SMALL, LARGE))
    assert [(each.key.user, each.key.name, each.runs) for each in found] == [
        ("ann", "align", 21),
        ("bob", "align", 20),
        ("ann", "zeal", 40),
    ]


# ---- from the store ------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = new_store(tmp_path)
    yield opened
    opened.close()


USED = AttemptUsage(peak_memory_bytes=7, cpu_seconds=1.5)


def succeeded(store: Store, sequence: int, used: AttemptUsage | None = USED, **more: Any) -> None:
    done = container(sequence, state=ContainerState.SUCCEEDED, **more)
    insert(store, done)
    finish(store, done, used)


def finish(store: Store, done: Any, used: AttemptUsage | None = USED) -> None:
    made = attempt(
        done,
        outcome=AttemptOutcome.SUCCEEDED,
        started_at=3000.0,
        pulled_at=3010.0,
        finished_at=3000.0 + done.sequence * 100,
        usage=used,
    )
    store.write([SaveContainer(container=done), SaveAttempt(attempt=made)]).result(30)


def test_only_what_succeeded_and_was_measured_is_read(store: Store) -> None:
    succeeded(store, 1)
    succeeded(store, 2, None)
    failed = container(3, state=ContainerState.FAILED)
    insert(store, failed)
    made = attempt(failed, outcome=AttemptOutcome.FAILED, finished_at=3500.0, usage=USED)
    store.write([SaveAttempt(attempt=made)]).result(30)
    found = store.measured_runs(EfficiencyFilter())
    assert found.complete
    assert found.runs == (
        MeasuredRun(
            user="ann",
            project="apollo",
            name="demo",
            task="",
            spec=SPEC,
            given=SPEC.resources,
            usage=USED,
            ran_s=90.0,
        ),
    )


def test_runs_are_filtered_and_the_latest_come_first(store: Store) -> None:
    night = job(1, task("left"), task("right"), name="night")
    for each in insert_job(store, night, 1):
        done = replace(each, state=ContainerState.SUCCEEDED)
        finish(store, done)
    succeeded(store, 3, user="bob", project="zeus")

    def found(**which: Any) -> list[tuple[str, str, str]]:
        runs = store.measured_runs(EfficiencyFilter(**which)).runs
        return [(each.user, each.name, each.task) for each in runs]

    everything = [("bob", "demo", ""), ("ann", "night", "right"), ("ann", "night", "left")]
    assert found() == everything
    assert found(user="bob") == found(project="zeus") == found(name="demo") == everything[:1]
    assert found(name="night") == everything[1:]
    assert found(since=3150.0) == everything[:2]
    assert found(projects=("zeus",)) == everything[:1]
    assert found(projects=()) == found(project="zeus", projects=("apollo",)) == []


def test_what_is_too_old_to_be_looked_at_is_said(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sequence in range(1, 4):
        succeeded(store, sequence)
    monkeypatch.setattr(usage_reader, "MOST_LOOKED_AT", 3)
    assert store.measured_runs(EfficiencyFilter()).complete
    monkeypatch.setattr(usage_reader, "MOST_LOOKED_AT", 2)
    monkeypatch.setattr(usage_reader, "_AT_ONCE", 1)
    found = store.measured_runs(EfficiencyFilter())
    assert ([each.ran_s for each in found.runs], found.complete) == ([290.0, 190.0], False)


# ---- who is told, and in which words -------------------------------------------------------------


def caller(user: str, role: Role, *projects: str) -> Principal:
    return Principal(user=user, role=role, door=Door.TOKEN, projects=projects)


@pytest.mark.parametrize(
    ("who", "user", "seen"),
    [
        (caller("ann", Role.USER, "a", "b"), "", ["ann a", "ann b"]),
        (caller("ann", Role.USER, "b"), "", ["ann b"]),
        (caller("ann", Role.USER, "a", "b"), "bob", []),
        (caller("lea", Role.LEAD, "a"), "", ["ann a", "bob a"]),
        (caller("lea", Role.LEAD, "a"), "bob", ["bob a"]),
        (caller("ada", Role.ADMIN), "", ["ann a", "ann b", "bob a"]),
        (caller("eve", Role.USER), "", []),
    ],
    ids=lambda each: (
        f"{each.role.value} {each.user} of {each.projects}"
        if isinstance(each, Principal)
        else str(each)
    ),
)
async def test_a_caller_is_told_of_what_is_theirs_to_know(
    who: Principal, user: str, seen: list[str]
) -> None:
    rig = ApiRig()
    async with rig.served() as services:
        assert rig.store is not None
        for sequence, whose in enumerate((("ann", "a"), ("ann", "b"), ("bob", "a")), 1):
            succeeded(rig.store, sequence, user=whose[0], project=whose[1])
        report = await services.efficiency.report(EfficiencyFilter(user=user), caller=who)
    assert sorted(f"{each.key.user} {each.key.project}" for each in report.items) == seen
    assert report.complete


def test_advice_names_the_options_to_submit_with() -> None:
    def said(**fields: Any) -> str:
        return advice(told(EfficiencyItem, **{"runs_missing": 0, **fields}))

    less = SuggestionAnswer(cpus=0.5, memory=1229 * 2**20)
    saving = SavingAnswer(usd=Decimal("14.00"), now="large", instead="small")
    assert said() == ""
    assert said(runs_missing=1) == "1 more run needed"
    assert said(runs_missing=20) == "20 more runs needed"
    assert said(suggested=less) == "ask for --cpus 0.5 --memory 1229MiB"
    assert said(suggested=less, saving=saving) == (
        "ask for --cpus 0.5 --memory 1229MiB: small would have cost $14.00 less than large"
    )
