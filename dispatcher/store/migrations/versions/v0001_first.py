"""The first schema: containers, attempts, launches, instances, idempotency keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table of the first schema."""
    _containers()
    _attempts()
    _pool()
    _idempotency()


def _containers() -> None:
    op.create_table(
        "containers",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("finished_at", sa.Double),
        sa.Column("exit_code", sa.BigInteger),
        sa.Column("reason_code", sa.Text),
        sa.Column("reason_message", sa.Text),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("cost_usd", sa.Text, nullable=False),
        sa.Column("spec", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("sequence", name="containers_sequence"),
    )
    op.create_index("containers_by_state", "containers", ["state", "sequence"])
    op.create_index("containers_by_user", "containers", ["user", "state", "sequence"])
    op.create_index("containers_by_project", "containers", ["project", "state", "sequence"])
    op.create_index("containers_by_name", "containers", ["name", "state", "sequence"])


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("container_id", sa.Text, sa.ForeignKey("containers.id"), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("instance_id", sa.Text, nullable=False),
        sa.Column("instance_type", sa.Text, nullable=False),
        sa.Column("price_usd_per_hour", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("finished_at", sa.Double),
        sa.Column("outcome", sa.Text),
        sa.Column("exit_code", sa.BigInteger),
        sa.Column("reason_code", sa.Text),
        sa.Column("reason_message", sa.Text),
        sa.Column("stdout_bytes", sa.BigInteger, nullable=False),
        sa.Column("stderr_bytes", sa.BigInteger, nullable=False),
        sa.Column("log_complete", sa.Boolean, nullable=False),
        sa.Column("ending", sa.Text),
        sa.UniqueConstraint("container_id", "number", name="attempts_container_number"),
    )
    op.create_index("attempts_by_instance", "attempts", ["instance_id", "sequence"])
    op.create_index("attempts_by_log", "attempts", ["instance_id", "log_complete"])


def _pool() -> None:
    op.create_table(
        "launches",
        sa.Column("token", sa.Text, primary_key=True),
        sa.Column("type_name", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
    )
    op.create_table(
        "instances",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("type_name", sa.Text, nullable=False),
        sa.Column("price_usd_per_hour", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("host_key", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("gone_at", sa.Double),
        sa.Column("gone_reason", sa.Text, nullable=False),
    )
    op.create_index("instances_by_gone", "instances", ["gone_at"])


def _idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("container_ids", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("user", "key"),
    )
    op.create_index("idempotency_by_age", "idempotency", ["created_at"])
