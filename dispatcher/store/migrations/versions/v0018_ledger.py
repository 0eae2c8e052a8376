"""The ledger: what instances were and who had a place there, their bills, prices and rollups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from longshore.dispatcher.store import migration_steps

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_IS_LONG = sa.text("until_ms IS NULL OR until_ms - from_ms > 86400000")
_GROUP = (
    "project",
    "user",
    "job_name",
    "labels",
    "type_name",
    "preemptible",
    "zone",
    "state",
    "column",
    "cause",
    "outcome",
    "price_source",
)


def upgrade() -> None:
    """Make the tables; of the time before nothing is known but what clouds tell of instances."""
    _make_facts()
    _make_rollups()


def _make_facts() -> None:
    op.create_table(
        "ledger_intervals",
        sa.Column("instance_id", sa.Text, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("from_ms", sa.BigInteger, nullable=False),
        sa.Column("until_ms", sa.BigInteger),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("share", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("job_name", sa.Text, nullable=False),
        sa.Column("job_id", sa.Text, nullable=False),
        sa.Column("task", sa.Text, nullable=False),
        sa.Column("array_index", sa.Integer),
        sa.Column("container_id", sa.Text, nullable=False),
        sa.Column("labels", sa.Text, nullable=False),
        sa.Column("cause", sa.Text, nullable=False),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "holder", "from_ms"),
    )
    op.create_index("ledger_intervals_by_from", "ledger_intervals", ["from_ms"])
    op.create_index(
        "ledger_intervals_long",
        "ledger_intervals",
        ["until_ms"],
        sqlite_where=_IS_LONG,
        postgresql_where=_IS_LONG,
    )
    op.create_index("ledger_intervals_by_container", "ledger_intervals", ["container_id"])
    op.create_table(
        "ledger_bills",
        sa.Column("instance_id", sa.Text, primary_key=True),
        sa.Column("type_name", sa.Text, nullable=False),
        sa.Column("provider_type", sa.Text, nullable=False),
        sa.Column("preemptible", sa.Boolean, nullable=False),
        sa.Column("nusd_per_hour", sa.BigInteger, nullable=False),
        sa.Column("payer_project", sa.Text, nullable=False),
        sa.Column("payer_user", sa.Text, nullable=False),
        sa.Column("payer_job_name", sa.Text, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("billed", sa.Text, nullable=False),
        sa.Column("running_ms", sa.BigInteger),
        sa.Column("ready_ms", sa.BigInteger),
        sa.Column("used_ms", sa.BigInteger),
        sa.Column("unwanted_ms", sa.BigInteger),
        sa.Column("seen_ms", sa.BigInteger),
        sa.Column("gone_ms", sa.BigInteger),
        sa.Column("final", sa.Boolean, nullable=False),
    )
    op.create_index("ledger_bills_by_gone", "ledger_bills", ["final", "gone_ms"])
    op.create_table(
        "ledger_prices",
        sa.Column("type_name", sa.Text, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("valid_from_ms", sa.BigInteger, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("nusd_per_hour", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("type_name", "zone", "valid_from_ms", "source"),
    )
    job_name = sa.Column("payer_job_name", sa.Text, nullable=False, server_default="")
    migration_steps.add_column("launches", job_name)


def _make_rollups() -> None:
    op.create_table(
        "ledger_groups",
        sa.Column("id", sa.Integer, primary_key=True),
        *(
            sa.Column(name, sa.Boolean if name == "preemptible" else sa.Text, nullable=False)
            for name in _GROUP
        ),
        sa.UniqueConstraint(*_GROUP, name="ledger_groups_whole"),
    )
    for table, period in (("ledger_hours", "hour"), ("ledger_days", "day")):
        op.create_table(
            table,
            sa.Column(period, sa.Integer, nullable=False),
            sa.Column("group_id", sa.Integer, nullable=False),
            sa.Column("quantity_ms", sa.BigInteger, nullable=False),
            sa.Column("whole", sa.BigInteger, nullable=False),
            sa.Column("rest", sa.BigInteger, nullable=False),
            sa.Column("uncertain_whole", sa.BigInteger, nullable=False),
            sa.Column("uncertain_rest", sa.BigInteger, nullable=False),
            sa.PrimaryKeyConstraint(period, "group_id"),
            sqlite_with_rowid=False,
        )
    op.create_table(
        "ledger_booked",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("until_hour", sa.Integer, nullable=False),
    )
    op.create_table(
        "ledger_marks",
        sa.Column("hour", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("times", sa.Integer, nullable=False),
    )
