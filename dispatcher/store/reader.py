"""Reading the store: one container, pages of them, and what a restart must know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import groupby
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Select, and_, false, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from longshore.dispatcher.domain.audit import AuditFilter, AuditPage
from longshore.dispatcher.domain.containers import (
    Attempt,
    Container,
    ContainerState,
    Dependency,
    InstanceRecord,
)
from longshore.dispatcher.domain.jobs import Job, JobType
from longshore.dispatcher.domain.queries import (
    LISTED_ATTEMPTS,
    Awaited,
    ContainerFilter,
    InstancePage,
    JobFilter,
    JobPage,
    KeptSecrets,
    Page,
    Recovered,
)
from longshore.dispatcher.domain.tokens import Token
from longshore.dispatcher.store import (
    access_records,
    codec,
    idempotency,
    job_reader,
)
from longshore.dispatcher.store.dependency_status import fetch_dependency_status
from longshore.dispatcher.store.errors import StoreBusy, StoreReplaced
from longshore.dispatcher.store.filters import container_queries, job_queries
from longshore.dispatcher.store.job_reader import Specs, StoredCounts
from longshore.dispatcher.store.kinship import (
    OpenBelow,
    fetch_ancestors,
    fetch_cost_below_usd,
    fetch_open_below,
)
from longshore.dispatcher.store.paging import fetch_gone, page_of
from longshore.dispatcher.store.tables import (
    attempts,
    containers,
    instances,
    jobs,
    launches,
    secret_data_keys,
    secrets,
)

Answer = TypeVar("Answer")

_UNFINISHED = [state.value for state in ContainerState if not state.final]
_IDS_AT_ONCE = 500
_IS_THERE = instances.c.gone_at.is_(None)
_PRESENT = select(instances.c.id).where(_IS_THERE)


class Reader:
    """Answers from a few read-only connections; every method blocks and suits any thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """Yield a connection that reads the store as it is at this moment.

        Raises `StoreBusy` when too many read at once, or nothing can be read now.
        """
        try:
            with self._engine.begin() as connection:
                yield connection
        except PoolTimeoutError:
            raise StoreBusy("too many requests read the store at once: try again later") from None
        except OperationalError as error:
            raise StoreBusy(f"the store cannot be read now: {error.orig}") from error
        except StoreReplaced as error:
            raise StoreBusy(str(error)) from error

    def container(self, container_id: str) -> Container | None:
        """Return one container with all its attempts, or None."""
        with self.snapshot() as connection:
            found = _fetch(connection, containers.c.id == container_id)
        return found[0] if found else None

    def made_by(self, *, user: str, key: str, fingerprint: str, now: float) -> tuple[str, ...]:
        """Return what a request made before; see `Store.made_by`."""
        with self.snapshot() as connection:
            return idempotency.made_by(
                connection, user=user, key=key, fingerprint=fingerprint, now=now
            )

    def containers_of(self, ids: Sequence[str]) -> list[Container]:
        """Return those of `ids` that there are, in their order; see `Store.containers_of`."""
        found: dict[str, Container] = {}
        with self.snapshot() as connection:
            for first in range(0, len(ids), _IDS_AT_ONCE):
                condition = containers.c.id.in_(ids[first : first + _IDS_AT_ONCE])
                read = _fetch(connection, condition, tried=_listed_attempts)
                found.update((each.id, each) for each in read)
        return [found[each] for each in ids if each in found]

    def containers(self, which: ContainerFilter, *, cursor: str, limit: int) -> Page:
        """Return a page of containers; see `Store.containers`."""
        queries = container_queries(which)
        with self.snapshot() as connection:
            shown, following = page_of(connection, queries, cursor=cursor, limit=limit)
            condition = containers.c.sequence.in_(shown)
            found = _fetch(connection, condition, tried=_listed_attempts) if shown else []
        items = tuple(reversed(found))
        return Page(items=items, next_cursor=following)

    def job(self, job_id: str) -> Job | None:
        """Return one job with its tasks, or None."""
        with self.snapshot() as connection:
            return job_reader.fetch_job(connection, job_id)

    def jobs(self, which: JobFilter, *, cursor: str, limit: int) -> JobPage:
        """Return a page of jobs; see `Store.jobs`."""
        queries = job_queries(which)
        with self.snapshot() as connection:
            shown, following = page_of(connection, queries, cursor=cursor, limit=limit)
            items = job_reader.fetch_heads(connection, shown) if shown else []
        return JobPage(items=tuple(items), next_cursor=following)

    def dependency_status(self, dependencies: Sequence[Dependency]) -> dict[str, Awaited]:
        """Return what is known of things to wait for; see `Store.dependency_status`."""
        with self.snapshot() as connection:
            return fetch_dependency_status(connection, dependencies)

    def ancestors(self, thing_id: str) -> tuple[str, ...]:
        """Return what is above a container or job; see `Store.ancestors`."""
        with self.snapshot() as connection:
            return fetch_ancestors(connection, thing_id)

    def open_below(self, container_id: str) -> OpenBelow:
        """Return what is below a container and has not ended; see `Store.open_below`."""
        with self.snapshot() as connection:
            return fetch_open_below(connection, container_id)

    def cost_below_usd(self, container_id: str) -> Decimal | None:
        """Return what all below a container cost; see `Store.cost_below_usd`."""
        with self.snapshot() as connection:
            return fetch_cost_below_usd(connection, container_id)

    def recover(self) -> Recovered:
        """Return what is unfinished, from one snapshot."""
        with self.snapshot() as connection:
            living = job_reader.fetch_unfinished(connection)
            specs = {(job.id, task.name): task.spec for job in living for task in job.tasks}
            unfinished = _fetch(connection, containers.c.state.in_(_UNFINISHED), specs)
            past = _fetch(connection, containers.c.sequence.in_(_latest_ended()))
            waited_for = _ended(connection, unfinished, living)
            pending = connection.execute(select(launches).order_by(launches.c.token)).all()
            present = connection.execute(
                select(instances).where(_IS_THERE).order_by(instances.c.id)
            ).all()
            ended = connection.execute(_with_logs_on_the_way()).all()
        return Recovered(
            containers=tuple(unfinished),
            past=tuple(past),
            jobs=tuple(living),
            ended=waited_for,
            unreleased=tuple(codec.attempt_from_row(row) for row in ended),
            launches=tuple(codec.launch_from_row(row) for row in pending),
            instances=tuple(codec.instance_from_row(row) for row in present),
        )

    def ask(self, question: Callable[[Connection], Answer]) -> Answer:
        """Return what a question that stands elsewhere finds, from one snapshot."""
        with self.snapshot() as connection:
            return question(connection)

    def tokens(self) -> list[Token]:
        """Return all tokens; see `Store.tokens`."""
        with self.snapshot() as connection:
            return access_records.fetch_tokens(connection)

    def audit(self, which: AuditFilter, *, cursor: str, limit: int) -> AuditPage:
        """Return a page of the audit log; see `Store.audit`."""
        with self.snapshot() as connection:
            return access_records.fetch_audit(connection, which, cursor=cursor, limit=limit)

    def last_audit_sequence(self) -> int:
        """Return the highest number of the audit log, 0 without any."""
        with self.snapshot() as connection:
            return access_records.last_audit_sequence(connection)

    def instance(self, instance_id: str) -> InstanceRecord | None:
        """Return what is kept of an instance, gone or not, or None."""
        with self.snapshot() as connection:
            row = connection.execute(
                select(instances).where(instances.c.id == instance_id)
            ).one_or_none()
        return None if row is None else codec.instance_from_row(row)

    def gone_instances(self, *, cursor: str, limit: int) -> InstancePage:
        """Return a page of instances that are gone; see `Store.gone_instances`."""
        with self.snapshot() as connection:
            return fetch_gone(connection, cursor=cursor, limit=limit)

    def secrets(self) -> KeptSecrets:
        """Return all secrets and all of their data keys; see `Store.secrets`."""
        with self.snapshot() as connection:
            kept = connection.execute(select(secrets).order_by(secrets.c.project, secrets.c.name))
            found = tuple(codec.secret_from_row(row) for row in kept)
            keys = connection.execute(select(secret_data_keys).order_by(secret_data_keys.c.id))
            data_keys = tuple(codec.data_key_from_row(row) for row in keys)
        return KeptSecrets(secrets=found, data_keys=data_keys)

    def last_sequence(self) -> int:
        """Return the highest sequence number of any container, 0 for none."""
        with self.snapshot() as connection:
            return connection.execute(select(func.max(containers.c.sequence))).scalar() or 0

    def last_job_sequence(self) -> int:
        """Return the highest sequence number of any job, 0 for none."""
        with self.snapshot() as connection:
            return connection.execute(select(func.max(jobs.c.sequence))).scalar() or 0


def _with_logs_on_the_way() -> Select[Any]:
    """Return the query for ended attempts whose log is not complete, on instances not gone."""
    return (
        select(attempts)
        .where(attempts.c.instance_id.in_(_PRESENT))
        .where(attempts.c.log_complete == false())
        .where(attempts.c.outcome.is_not(None))
        .order_by(attempts.c.id)
    )


def _latest_ended() -> Select[int]:
    """Return the query for which containers tell where unfinished sysbatch jobs have run.

    It looks at all containers that such jobs ever had, by the index for containers of a job.
    """
    running = (
        select(jobs.c.id)
        .where(jobs.c.state.in_(job_reader.UNFINISHED))
        .where(jobs.c.type == JobType.SYSBATCH.value)
    )
    return (
        select(func.max(containers.c.sequence))
        .where(containers.c.job_id.in_(running))
        .where(containers.c.pinned_to.in_(_PRESENT))
        .where(containers.c.state.not_in(_UNFINISHED))
        .group_by(containers.c.job_id, containers.c.pinned_to)
    )


def _ended(
    connection: Connection, unfinished: Sequence[Container], living: Sequence[Job]
) -> dict[str, bool]:
    """Return what has ended of all that the unfinished wait for, and whether it succeeded."""
    # The elements of an array share one specification.
    specs = {id(container.spec): container.spec for container in unfinished}
    waits = dict.fromkeys(each for spec in specs.values() for each in spec.after)
    counts = {
        job.id: StoredCounts(
            tallies={task.name: tally for task, tally in zip(job.tasks, job.tallies, strict=True)}
        )
        for job in living
    }
    ended: dict[str, bool] = {}
    for known in fetch_dependency_status(connection, waits, counts).values():
        ended.update(known.ended)
    return ended


def _all_attempts(condition: ColumnElement[bool]) -> Select[Any]:
    """Return the query for the attempts of the containers of `condition`."""
    # By a subquery, so that the index leads from these containers to their attempts.
    return select(attempts).where(
        attempts.c.container_id.in_(select(containers.c.id).where(condition))
    )


def _listed_attempts(condition: ColumnElement[bool]) -> Select[Any]:
    """Return the query for the last few attempts of each of the containers of `condition`."""
    others = attempts.alias()
    latest = (
        select(func.max(others.c.number))
        .where(others.c.container_id == containers.c.id)
        .correlate(containers)
        .scalar_subquery()
    )
    # For each container the index leads to its latest attempt, and from there to the few before.
    is_late = and_(
        attempts.c.container_id == containers.c.id, attempts.c.number > latest - LISTED_ATTEMPTS
    )
    return select(attempts).select_from(containers.join(attempts, is_late)).where(condition)


def _fetch(
    connection: Connection,
    condition: ColumnElement[bool],
    specs: Specs | None = None,
    tried: Callable[[ColumnElement[bool]], Select[Any]] = _all_attempts,
) -> list[Container]:
    """Return the containers of `condition` by sequence, with their attempts by number.

    `specs` are those of tasks that have been read already; `tried` makes the query for attempts.
    """
    rows = connection.execute(
        select(containers).where(condition).order_by(containers.c.sequence)
    ).all()
    made: dict[str, tuple[Attempt, ...]] = {}
    if rows:
        found = connection.execute(
            tried(condition).order_by(attempts.c.container_id, attempts.c.number)
        )
        for container_id, group in groupby(found, key=lambda row: str(row.container_id)):
            made[container_id] = tuple(codec.attempt_from_row(row) for row in group)
    known = specs or {}
    if any(not row.spec and (row.job_id, row.task) not in known for row in rows):
        known = job_reader.fetch_specs(connection, condition)
    # Those of a job on many instances are equal: they share one.
    texts = dict.fromkeys(row.spec for row in rows if row.spec)
    own = {text: codec.decode_spec(text) for text in texts}
    return [
        codec.container_from_row(
            row,
            made.get(row.id, ()),
            own[row.spec] if row.spec else known[row.job_id, row.task],
        )
        for row in rows
    ]
