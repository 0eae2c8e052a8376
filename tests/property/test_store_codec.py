"""Whatever the model can hold, a store gives back exactly."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import TypeVar, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longshore.dispatcher.domain.containers import (
    Attempt,
    AttemptOutcome,
    Constraints,
    Container,
    ContainerSpec,
    ContainerState,
    Dependency,
    DependencyOn,
    InstanceRecord,
    Reason,
    Retries,
)
from longshore.dispatcher.domain.jobs import Job, JobState, JobTask, Tally
from longshore.dispatcher.domain.messages import (
    InsertContainers,
    InsertJob,
    SaveAttempt,
    SaveContainer,
    SaveInstance,
    SaveJob,
    SaveLaunch,
)
from longshore.dispatcher.store.store import Store
from longshore.drivers.interface import Resources
from longshore.pool.model import Launch, Payer, SecretKind, SecretUse
from longshore.pool.usage import MOST_BYTES, AttemptUsage
from tests.store_values import container, containers_of, url_in

T = TypeVar("T")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
amounts = st.integers(0, 2**60)
times = st.floats(0, 1e12)
maybe_times = st.none() | times
prices = st.decimals(0, 10**6, allow_nan=False, allow_infinity=False)
reasons = st.none() | st.builds(Reason, code=texts, message=texts)
exit_codes = st.none() | st.integers(0, 255)


def pairs(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[tuple[str, object], ...]]:
    return st.dictionaries(texts, values, max_size=3).map(lambda d: tuple(sorted(d.items())))


resources = st.builds(
    Resources,
    cpu_millis=amounts,
    memory_bytes=amounts,
    disk_bytes=amounts,
    gpus=amounts,
    custom=pairs(amounts),
)
BY_TYPE: dict[object, st.SearchStrategy[object]] = {
    NoneType: st.none(),
    str: texts,
    int: amounts,
    float: times,
    bool: st.booleans(),
    Decimal: prices,
    tuple[str, ...]: st.lists(texts, max_size=3).map(tuple),
    tuple[tuple[str, str], ...]: pairs(texts),
    tuple[SecretUse, ...]: st.lists(
        st.builds(SecretUse, secret=texts, kind=st.sampled_from(SecretKind), target=texts),
        max_size=3,
    ).map(tuple),
}


def by_type(hint: object) -> st.SearchStrategy[object]:
    """Return values of a field; one of a type that is not here is to be given by hand."""
    if isinstance(hint, UnionType):
        return st.one_of(*(by_type(each) for each in hint.__args__))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    return BY_TYPE[hint]


def every_field(kind: type[T], **given: st.SearchStrategy[object]) -> st.SearchStrategy[T]:
    """Return records in which each field differs, also one that is new."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in given}
    return st.builds(kind, **given, **{name: by_type(hint) for name, hint in hints.items()})


constraints = every_field(Constraints)
specs = every_field(
    ContainerSpec,
    resources=resources,
    constraints=constraints,
    retries=st.builds(
        Retries,
        most=st.integers(0, 100),
        on=st.lists(texts, max_size=3).map(tuple),
        exit_codes=st.lists(st.integers(1, 255), max_size=3).map(tuple),
        delay_s=times,
    ),
    after=st.lists(
        st.builds(Dependency, of=texts, on=st.sampled_from(DependencyOn), each=st.booleans()),
        max_size=3,
    ).map(tuple),
)
containers = st.builds(
    Container,
    id=st.just(""),
    sequence=st.just(0),
    spec=specs,
    user=texts,
    project=texts,
    priority=st.integers(0, 1000),
    created_at=times,
    state=st.sampled_from(ContainerState),
    started_at=maybe_times,
    finished_at=maybe_times,
    exit_code=exit_codes,
    reason=reasons,
    cancel_requested=st.booleans(),
    cost_usd=prices,
)
measured = st.none() | st.integers(0, MOST_BYTES)
usages = st.builds(
    AttemptUsage,
    peak_memory_bytes=measured,
    mean_memory_bytes=measured,
    cpu_seconds=maybe_times,
    read_bytes=measured,
    written_bytes=measured,
    gpu_peak_memory_bytes=measured,
    gpu_mean_utilization=st.none() | st.floats(0, 1),
)
attempts = st.builds(
    Attempt,
    id=st.just(""),
    container_id=st.just(""),
    number=st.just(1),
    instance_id=texts,
    instance_type=texts,
    price_usd_per_hour=prices,
    created_at=times,
    started_at=maybe_times,
    finished_at=maybe_times,
    outcome=st.none() | st.sampled_from(AttemptOutcome),
    exit_code=exit_codes,
    reason=reasons,
    stdout_bytes=amounts,
    stderr_bytes=amounts,
    log_complete=st.booleans(),
    resources=st.none() | resources,
    usage=st.none() | usages,
)
instances = st.builds(
    InstanceRecord,
    id=st.just(""),
    token=texts,
    type_name=texts,
    price_usd_per_hour=prices,
    created_at=times,
    host_key=texts,
    address=texts,
    behavior=texts,
    killed=st.none() | texts,
    gone_at=maybe_times,
    gone_reason=texts,
)
tasks = st.builds(
    JobTask,
    name=texts,
    spec=specs,
    size=st.integers(1, 3),
    is_array=st.booleans(),
    max_running=st.none() | st.integers(1, 100_000),
)
counts = st.integers(0, 100_000)
tallies = st.builds(
    Tally,
    queued=counts,
    locked=counts,
    running=counts,
    succeeded=counts,
    failed=counts,
    cancelled=counts,
)
jobs = st.builds(
    Job,
    id=st.just(""),
    sequence=st.just(0),
    name=texts,
    user=texts,
    project=texts,
    priority=st.integers(0, 1000),
    created_at=times,
    tasks=st.lists(tasks, min_size=1, max_size=3, unique_by=lambda t: t.name).map(tuple),
    tallies=st.lists(tallies, min_size=3, max_size=3).map(tuple),
    labels=pairs(texts),
    state=st.sampled_from(JobState),
    started_at=maybe_times,
    finished_at=maybe_times,
    exit_code=exit_codes,
    reason=reasons,
    cancel_requested=st.booleans(),
    held=st.booleans(),
)
payers = st.builds(Payer, project=st.none() | texts, user=st.none() | texts)
launches = st.builds(
    Launch, token=texts, type_name=texts, secret=texts, created_at=times, payer=payers
)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as directory:
        opened = Store.open(url_in(Path(directory)))
        above = container(opened.next_sequences(1)[0], id="c-above")
        opened.write([InsertContainers(containers=(above,), user="ann")]).result(30)
        yield opened
        opened.close()


@settings(max_examples=60)
@given(first=containers, later=containers, tried=st.lists(attempts, max_size=3))
def test_containers_and_attempts(
    store: Store, first: Container, later: Container, tried: list[Attempt]
) -> None:
    (sequence,) = store.next_sequences(1)
    parent = "c-above" if first.parent else ""
    first = replace(first, id=f"c-{sequence}", sequence=sequence, parent=parent)
    store.write([InsertContainers(containers=(first,), user="ann")]).result(30)
    assert shown(store.container(first.id)) == shown(first)
    progress = replace(
        first,
        state=later.state,
        started_at=later.started_at,
        finished_at=later.finished_at,
        exit_code=later.exit_code,
        reason=later.reason,
        cost_usd=later.cost_usd,
    )
    numbered = tuple(
        replace(each, id=f"a-{sequence}-{n}", container_id=first.id, number=n)
        for n, each in enumerate(tried, 1)
    )
    store.write(
        [SaveContainer(container=progress), *(SaveAttempt(attempt=each) for each in numbered)]
    ).result(30)
    assert shown(store.container(first.id)) == shown(replace(progress, attempts=numbered))


@settings(max_examples=60)
@given(first=jobs, later=jobs)
def test_jobs_and_their_containers(store: Store, first: Job, later: Job) -> None:
    sequence = store.next_job_sequence()
    number = len(first.tasks)
    parent, tallies = "c-above" if first.parent else "", first.tallies[:number]
    first = replace(first, id=f"j-{sequence}", sequence=sequence, parent=parent, tallies=tallies)
    numbers = store.next_sequences(sum(task.size for task in first.tasks))
    containers = containers_of(first, numbers[0])
    store.write([InsertJob(job=first, containers=containers, user="ann")]).result(30)
    assert shown(store.job(first.id)) == shown(first)
    for each in containers:
        assert shown(store.container(each.id)) == shown(each)
    progress = replace(
        first,
        state=later.state,
        started_at=later.started_at,
        finished_at=later.finished_at,
        exit_code=later.exit_code,
        reason=later.reason,
        tallies=later.tallies[:number],
    )
    store.write([SaveJob(job=progress)]).result(30)
    assert shown(store.job(first.id)) == shown(progress)


@settings(max_examples=60)
@given(record=instances, launch=launches)
def test_instances_and_launches(store: Store, record: InstanceRecord, launch: Launch) -> None:
    (number,) = store.next_sequences(1)
    record = replace(record, id=f"i-{number}")
    launch = replace(launch, token=f"t-{number}")
    store.write([SaveInstance(instance=record), SaveLaunch(launch=launch)]).result(30)
    assert shown(store.instance(record.id)) == shown(record)
    assert launch in store.recover().launches


def shown(value: object) -> str:
    """Return a value as text, in which 0.1 and 0.10 differ, as they do on a bill."""
    return repr(value)


def test_equal_amounts_of_other_digits_are_told_apart() -> None:
    assert shown(Decimal("0.1")) != shown(Decimal("0.10"))
