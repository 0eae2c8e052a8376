"""Jobs in the store that are no batch jobs: read back as they were, and after an old schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from alembic import command

from dispatcher.job_model import JobType, Tally
from dispatcher.job_terms import (
    ElasticTerms,
    Overlap,
    Parameters,
    PerInstanceTerms,
    Schedule,
    Terms,
)
from dispatcher.messages import InsertJob, SaveAttempt
from dispatcher.model import Container
from dispatcher.planner.elastic_model import ElasticMode, Role
from dispatcher.planner.per_instance_rounds import UpdateStrategy
from dispatcher.queries import JobFilter
from dispatcher.store import schema, sqlite
from dispatcher.store.store import Store
from drivers.errors import BugError
from tests.store_values import (
    attempt,
    container,
    containers_of,
    insert,
    insert_job,
    job,
    task,
    url_in,
)

ON_EACH = Terms(
    per_instance=PerInstanceTerms(
        revision=3,
        revised_at=1_700_000_000.123456,
        update=UpdateStrategy(max_parallel=5, stagger_s=0.1),
        late_joiners=False,
        on_paused=True,
        ignore_system=True,
    )
)
GROWS = Terms(
    elastic=ElasticTerms(mode=ElasticMode.MALLEABLE, size=12.5, runtime_s=3600.25, scale_up=True)
)
NIGHTLY = Terms(
    schedule=Schedule(
        cron=("0 3 * * *", "30 4 1 * *"), time_zone="Europe/Berlin", overlap=Overlap.FORBID
    )
)
DISPATCHED = Terms(
    elastic=ElasticTerms(),
    parameters=Parameters(required=("input",), optional=(("level", "3"), ("mode", ""))),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(url_in(tmp_path))
    yield opened
    opened.close()


# ---- as they were --------------------------------------------------------------------------------


def test_jobs_of_every_type_come_back_as_they_were(tmp_path: Path) -> None:
    store = Store.open(url_in(tmp_path))
    components = (
        task("driver", role=Role.ESSENTIAL, startup_order=1),
        task("worker", 3, role=Role.ELASTIC, startup_order=-7),
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
    store = Store.open(url_in(tmp_path))
    recovered = store.recover()
    (known,) = recovered.jobs
    assert (known.type, known.terms, known.parent, known.launched_for) == (
        JobType.BATCH,
        Terms(),
        "",
        None,
    )
    (only,) = known.tasks
    assert (only.role, only.startup_order, only.size) == (Role.ESSENTIAL, 0, 2)
    assert (known.held, known.tallies) == (True, (Tally(running=1, succeeded=1),))
    (going,) = recovered.containers
    assert (going.id, going.pinned_to, going.spec) == ("c-2", "", only.spec)
    (tried,) = going.attempts
    assert (tried.revision, tried.price_usd_per_hour) == (0, Decimal("0.1"))
    assert store.job("j-1") == known
    store.close()
