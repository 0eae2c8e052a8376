"""Jobs that run on every instance, give components back, or make runs of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; the jobs that are known are batch jobs, and the runs of none."""
    op.add_column("jobs", sa.Column("terms", sa.LargeBinary))
    op.add_column("jobs", sa.Column("parent", sa.Text, nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("launched_for", sa.Double))
    op.create_index("jobs_by_parent", "jobs", ["parent", "state", "sequence"])
    op.add_column(
        "job_tasks", sa.Column("role", sa.Text, nullable=False, server_default="essential")
    )
    op.add_column(
        "job_tasks", sa.Column("startup_order", sa.Integer, nullable=False, server_default="0")
    )
    op.add_column("containers", sa.Column("pinned_to", sa.Text, nullable=False, server_default=""))
    op.add_column("attempts", sa.Column("revision", sa.Integer, nullable=False, server_default="0"))
