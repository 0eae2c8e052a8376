"""The tables, as SQLAlchemy Core sees them; the migrations make them.

Amounts of money are text, so that they stay exact. An attempt repeats its container's `sequence`,
so that what ran on one instance can be listed in the order of containers from one index. The
`spec` of a container of a job is empty: its job's task has it, once for all of an array. But one
that is pinned to an instance has its own: it may be that of an earlier revision. The `terms` of a
job are null where it has none.

`ended` repeats the `state` of what has ended, and is empty before: what is listed by a user or the
like is found by an index with it, which is written twice in a life instead of with each state.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()


def _make_listed(table: Table, *filters: tuple[str, ...]) -> None:
    """Let a table be listed by each of these filters, and the state: none of them is walked."""
    for wanted in filters:
        columns = [table.c[name] for name in (*wanted, "ended", "sequence")]
        Index(f"{table.name}_by_{'_'.join(wanted)}", *columns)


containers = Table(
    "containers",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("exit_code", BigInteger),
    Column("reason_code", Text),
    Column("reason_message", Text),
    Column("cancel_requested", Boolean, nullable=False),
    Column("cost_usd", Text, nullable=False),
    Column("spec", LargeBinary, nullable=False),
    Column("job_id", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("array_index", Integer),
    Column("pinned_to", Text, nullable=False),
    Column("ended", Text, nullable=False),
    Column("parent", Text, nullable=False),
    UniqueConstraint("sequence", name="containers_sequence"),
)
Index("containers_by_state", containers.c.state, containers.c.sequence)
_make_listed(containers, ("user",), ("project",), ("name",), ("parent",))
_make_listed(containers, ("user", "project"), ("user", "name"), ("project", "name"))
Index("containers_by_job", containers.c.job_id, containers.c.task, containers.c.sequence)

jobs = Table(
    "jobs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("name", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("project", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("labels", LargeBinary, nullable=False),
    Column("tallies", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("state", Text, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("exit_code", BigInteger),
    Column("reason_code", Text),
    Column("reason_message", Text),
    Column("cancel_requested", Boolean, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("terms", LargeBinary),
    Column("parent", Text, nullable=False),
    Column("launched_for", Double),
    Column("ended", Text, nullable=False),
    UniqueConstraint("sequence", name="jobs_sequence"),
)
Index("jobs_by_state", jobs.c.state, jobs.c.sequence)
_make_listed(jobs, ("user",), ("project",), ("name",), ("parent",))
_make_listed(jobs, ("user", "project"), ("user", "name"), ("project", "name"))
_make_listed(jobs, ("user", "parent"), ("project", "parent"), ("name", "parent"))

job_tasks = Table(
    "job_tasks",
    metadata,
    Column("job_id", Text, ForeignKey("jobs.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("is_array", Boolean, nullable=False),
    Column("max_running", Integer),
    Column("spec", LargeBinary, nullable=False),
    Column("role", Text, nullable=False),
    Column("startup_order", Integer, nullable=False),
    PrimaryKeyConstraint("job_id", "number"),
    UniqueConstraint("job_id", "name", name="job_tasks_name"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("container_id", Text, ForeignKey("containers.id"), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("number", Integer, nullable=False),
    Column("instance_id", Text, nullable=False),
    Column("instance_type", Text, nullable=False),
    Column("price_usd_per_hour", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    Column("outcome", Text),
    Column("exit_code", BigInteger),
    Column("reason_code", Text),
    Column("reason_message", Text),
    Column("stdout_bytes", BigInteger, nullable=False),
    Column("stderr_bytes", BigInteger, nullable=False),
    Column("log_complete", Boolean, nullable=False),
    Column("ending", Text),
    Column("ending_for", Text, nullable=False),
    Column("resources", LargeBinary),
    Column("revision", Integer, nullable=False),
    Column("ending_cause", Text, nullable=False),
    Column("ending_detail", Text, nullable=False),
    Column("pulling_since", Double),
    Column("pulled_at", Double),
    Column("image_digest", Text, nullable=False),
    Column("warning", Text, nullable=False),
    UniqueConstraint("container_id", "number", name="attempts_container_number"),
)
Index("attempts_by_instance", attempts.c.instance_id, attempts.c.sequence)
Index("attempts_by_log", attempts.c.instance_id, attempts.c.log_complete)

launches = Table(
    "launches",
    metadata,
    Column("token", Text, primary_key=True),
    Column("type_name", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("payer_project", Text),
    Column("payer_user", Text),
    Column("payer_job_name", Text, nullable=False),
)

instances = Table(
    "instances",
    metadata,
    Column("id", Text, primary_key=True),
    Column("token", Text, nullable=False),
    Column("type_name", Text, nullable=False),
    Column("price_usd_per_hour", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("host_key", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("gone_at", Double),
    Column("gone_reason", Text, nullable=False),
    Column("behavior", Text, nullable=False),
    Column("behavior_note", Text, nullable=False),
    Column("killed", Text),
)
Index("instances_by_gone", instances.c.gone_at, instances.c.id)

idempotency = Table(
    "idempotency",
    metadata,
    Column("user", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("container_ids", LargeBinary, nullable=False),
    Column("created_at", Double, nullable=False),
    PrimaryKeyConstraint("user", "key"),
)
Index("idempotency_by_age", idempotency.c.created_at)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("projects", LargeBinary, nullable=False),
    Column("default_project", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("revoked_by", Text, nullable=False),
    Column("last_used_at", Double),
)

audit = Table(
    "audit",
    metadata,
    Column("sequence", BigInteger, primary_key=True),
    Column("at", Double, nullable=False),
    Column("user", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("door", Text, nullable=False),
    Column("token_id", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("made", Text, nullable=False),
    Column("status", Integer),
)
Index("audit_by_at", audit.c.at)
Index("audit_by_user", audit.c.user, audit.c.sequence)
Index("audit_by_token_id", audit.c.token_id, audit.c.sequence)

store_marker = Table(
    "store_marker",
    metadata,
    Column("store", Text, primary_key=True),
    Column("created_at", Double, nullable=False),
    Column("commits", BigInteger, nullable=False),
    Column("written_at", Double, nullable=False),
)

secrets = Table(
    "secrets",
    metadata,
    Column("project", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("ciphertext", Text, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("updated_by", Text, nullable=False),
    PrimaryKeyConstraint("project", "name"),
)

secret_data_keys = Table(
    "secret_data_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("ciphertext", Text, nullable=False),
    Column("created_at", Double, nullable=False),
)
