"""Jobs in the store that are no batch jobs: read back as they were, and after an old schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import structlog
from alembic import command

from longshore.dispatcher.domain.containers import Container
from longshore.dispatcher.domain.jobs import (
    ElasticMode,
    ElasticTerms,
    Job,
    JobState,
    JobType,
    JobTypeSpec,
    Overlap,
    Parameters,
    PerInstanceTerms,
    Schedule,
    Tally,
    TaskRole,
    UpdateStrategy,
)
from longshore.dispatcher.domain.messages import InsertJob, NoteJobLaunch, SaveAttempt, SaveJob
from longshore.dispatcher.domain.queries import JobFilter
from longshore.dispatcher.store import schema, sqlite
from longshore.dispatcher.store.errors import AlreadyFinal, NoSuchJob
from longshore.dispatcher.store.store import Store
from longshore.drivers.errors import BugError
from tests.store_values import (
    attempt,
    container,
    containers_of,
    insert,
    insert_job,
    job,
    new_store,
    task,
    url_in,
)

ON_EACH = JobTypeSpec(
    per_instance=PerInstanceTerms(
        revision=3,
        revised_at=1_700_000_000.123456,
        update=UpdateStrategy(max_parallel=5, stagger_s=0.1),
        late_joiners=False,
        on_paused=True,
        ignore_system=True,
    )
)
GROWS = JobTypeSpec(
    elastic=ElasticTerms(mode=ElasticMode.MALLEABLE, size=12.5, runtime_s=3600.25, scale_up=True)
)
NIGHTLY = JobTypeSpec(
    schedule=Schedule(
        cron=("0 3 * * *", "30 4 1 * *"), time_zone="Europe/Berlin", overlap=Overlap.FORBID
    )
)
DISPATCHED = JobTypeSpec(
    elastic=ElasticTerms(),
    parameters=Parameters(required=("input",), optional=(("level", "3"), ("mode", ""))),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = new_store(tmp_path)
    yield opened
    opened.close()


# ---- as they were --------------------------------------------------------------------------------


def test_jobs_of_every_type_come_back_as_they_were(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    components = (
        task("driver", role=TaskRole.ESSENTIAL, startup_order=1),
        task("worker", 3, role=TaskRole.ELASTIC, startup_order=-7),
    )
    nothing = {"tallies": (Tally(),)}
    jobs = [
        job(1, task(size=0), type=JobType.SYSTEM, terms=ON_EACH),
        job(2, task(size=0), type=JobType.SYSBATCH, terms=ON_EACH),
        job(3, *components, type=JobType.ELASTIC, terms=GROWS),
        job(4, task("a"), terms=NIGHTLY, launched_for=1_700_000_000.5, **nothing),
        job(5, task("a"), type=JobType.ELASTIC, terms=DISPATCHED, **nothing),
        job(6, task("a"), parent="j-4"),
    ]
    made: list[Container] = []
    for each in jobs:
        containers = () if each.is_template else containers_of(each, 10 * each.sequence)
        made += containers
        change = InsertJob(job=each, containers=containers, user="ann")
        store.write([change]).result(30)
    store.close()
    store = Store.open(url_in(tmp_path))
    assert [store.job(each.id) for each in jobs] == jobs
    recovered = store.recover()
    assert recovered.jobs == tuple(jobs)
    assert recovered.containers == tuple(made)
    page = store.jobs(JobFilter(), cursor="", limit=10)
    assert page.items == tuple(
        replace(each, tasks=(), tallies=(each.tally,)) for each in reversed(jobs)
    )
    store.close()


def test_a_template_has_no_containers(store: Store) -> None:
    template = job(1, task("a"), terms=NIGHTLY)
    with pytest.raises(BugError, match="not as many"):
        insert_job(store, template, 1)
    assert store.job("j-1") is None


def test_attempts_keep_the_revision_that_they_run_at(store: Store) -> None:
    one = container(1)
    insert(store, one)
    tried = (attempt(one, 1), attempt(one, 2, revision=7))
    store.write([SaveAttempt(attempt=each) for each in tried]).result(30)
    found = store.container(one.id)
    assert found is not None
    assert found.attempts == tried
    moved = replace(tried[1], revision=8)
    store.write([SaveAttempt(attempt=moved)]).result(30)
    found = store.container(one.id)
    assert found is not None
    assert found.attempts == (tried[0], moved)


# ---- runs ----------------------------------------------------------------------------------------


def periodic(sequence: int, **changes: Any) -> Job:
    """Return a job whose runs are jobs of their own."""
    values: dict[str, Any] = {"terms": NIGHTLY, "tallies": (Tally(),)}
    return job(sequence, task("a"), **{**values, **changes})


def test_the_launch_of_a_run_is_noted_with_the_run_or_not_at_all(store: Store) -> None:
    template, other = periodic(1), periodic(2)
    for each in (template, other):
        store.write([InsertJob(job=each, containers=(), user="ann")]).result(30)
    run = job(3, task("a"), parent="j-1")
    insert = InsertJob(job=run, containers=containers_of(run, 1), user="ann")
    noted = NoteJobLaunch(job_id="j-1", launched_for=1_700_000_000.5)
    store.write([insert, noted]).result(30)
    assert store.job("j-1") == replace(template, launched_for=1_700_000_000.5)
    assert store.job("j-2") == other
    assert store.job("j-3") == run
    cancelled = replace(template, state=JobState.CANCELLED, launched_for=0.0)
    store.write([SaveJob(job=cancelled)], wait=True).result(30)
    late = job(4, task("a"))
    insert = InsertJob(job=late, containers=containers_of(late, 2), user="ann")
    noted = NoteJobLaunch(job_id="j-1", launched_for=1_800_000_000.0)
    refused = store.write([insert, noted]).exception(30)
    assert isinstance(refused, AlreadyFinal)
    assert store.job("j-4") is None
    assert store.job("j-1") == replace(cancelled, launched_for=1_700_000_000.5)
    unknown = store.write([NoteJobLaunch(job_id="j-9", launched_for=1.0)]).exception(30)
    assert isinstance(unknown, NoSuchJob)


def test_the_runs_of_a_job_are_listed(store: Store) -> None:
    states = list(JobState)
    runs = [
        job(n, task(), parent=f"j-{1 + n % 2}", state=states[n % 5], user=("ann", "bob")[n % 3 % 2])
        for n in range(3, 33)
    ]
    for template in (periodic(1), periodic(2)):
        store.write([InsertJob(job=template, containers=(), user="ann")]).result(30)
    for run in runs:
        insert_job(store, run, run.sequence)
    under_way = (JobState.PENDING, JobState.RUNNING)
    filters: dict[JobFilter, Callable[[Job], bool]] = {
        JobFilter(parent="j-1"): lambda j: j.parent == "j-1",
        JobFilter(parent="j-2", states=under_way): lambda j: (
            j.parent == "j-2" and j.state in under_way
        ),
        JobFilter(parent="j-1", user="bob"): lambda j: j.parent == "j-1" and j.user == "bob",
        JobFilter(parent="j-3"): lambda _: False,
    }
    for which, wanted in filters.items():
        found = store.jobs(which, cursor="", limit=1000).items
        assert [j.id for j in found] == [j.id for j in reversed(runs) if wanted(j)], which
        assert {j.parent for j in found} <= {which.parent}
    page = store.jobs(JobFilter(parent="j-1"), cursor="", limit=3)
    assert page.next_cursor is not None
    following = store.jobs(JobFilter(parent="j-1"), cursor=page.next_cursor, limit=1)
    assert [j.id for j in (*page.items, *following.items)] == ["j-32", "j-30", "j-28", "j-26"]


def schema_of(directory: Path) -> str:
    """Return which schema a store is of."""
    engine = sqlite.reading_engine(directory / "longshore.db")
    with engine.begin() as connection:
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
    engine.dispose()
    return str(found)


# ---- from an older schema ------------------------------------------------------------------------


def test_jobs_of_the_sixth_schema_are_batch_jobs_without_terms(tmp_path: Path) -> None:
    spec = (
        b'{"name":"old","image":"busybox","command":["true"],"env":[],"resources":'
        b'{"cpu_millis":1000,"memory_bytes":1},"constraints":{}}'
    )
    engine = sqlite.writing_engine(tmp_path / "longshore.db")
    with engine.begin() as connection:
        command.upgrade(schema.config_for(connection), "0006")
        connection.exec_driver_sql(
            "INSERT INTO jobs VALUES ('j-1', 1, 'night', 'batch', 'ann', 'apollo', 500, ?, ?, 1.5,"
            " 'running', 2.5, NULL, NULL, NULL, NULL, 0, 1)",
            (b"[]", b'[{"running":1,"succeeded":1}]'),
        )
        connection.exec_driver_sql(
            "INSERT INTO job_tasks VALUES ('j-1', 0, 'a', 2, 1, 1, ?)", (spec,)
        )
        for number, state in (1, "succeeded"), (2, "running"):
            connection.exec_driver_sql(
                "INSERT INTO containers VALUES (?, ?, 'old', 'ann', 'apollo', 500, 1.5, ?, 2.5,"
                " NULL, NULL, NULL, NULL, 0, '0', ?, 'j-1', 'a', ?)",
                (f"c-{number}", number, state, b"", number - 1),
            )
        connection.exec_driver_sql(
            "INSERT INTO attempts VALUES ('a-1', 'c-2', 2, 1, 'i-1', 'small', '0.1', 2.5, 2.5,"
            " NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, '')"
        )
    engine.dispose()
    with structlog.testing.capture_logs() as lines:
        store = Store.open(url_in(tmp_path))
    assert [(each["event"], each["from"]) for each in lines] == [("store migrated", "0006")]
    assert lines[0]["to"] == schema_of(tmp_path)
    recovered = store.recover()
    (known,) = recovered.jobs
    assert (known.type, known.terms, known.parent, known.launched_for) == (
        JobType.BATCH,
        JobTypeSpec(),
        "",
        None,
    )
    (only,) = known.tasks
    assert (only.role, only.startup_order, only.size) == (TaskRole.ESSENTIAL, 0, 2)
    assert (known.held, known.tallies) == (True, (Tally(running=1, succeeded=1),))
    (going,) = recovered.containers
    assert (going.id, going.pinned_to, going.spec) == ("c-2", "", only.spec)
    (tried,) = going.attempts
    assert (tried.revision, tried.price_usd_per_hour) == (0, Decimal("0.1"))
    assert store.job("j-1") == known
    store.close()


def test_a_store_that_is_new_or_of_this_schema_is_not_migrated(tmp_path: Path) -> None:
    with structlog.testing.capture_logs() as lines:
        Store.open(url_in(tmp_path)).close()
        Store.open(url_in(tmp_path)).close()
    assert lines == []
