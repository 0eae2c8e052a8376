"""Jobs with their tasks, and which job a container is of."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and tables; the containers that are known are of no job."""
    op.add_column("containers", sa.Column("job_id", sa.Text, nullable=False, server_default=""))
    op.add_column("containers", sa.Column("task", sa.Text, nullable=False, server_default=""))
    op.add_column("containers", sa.Column("array_index", sa.Integer))
    op.create_index("containers_by_job", "containers", ["job_id", "task", "sequence"])
    _jobs()
    _job_tasks()


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("project", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("labels", sa.LargeBinary, nullable=False),
        sa.Column("tallies", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("finished_at", sa.Double),
        sa.Column("exit_code", sa.BigInteger),
        sa.Column("reason_code", sa.Text),
        sa.Column("reason_message", sa.Text),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.UniqueConstraint("sequence", name="jobs_sequence"),
    )
    op.create_index("jobs_by_state", "jobs", ["state", "sequence"])
    op.create_index("jobs_by_user", "jobs", ["user", "state", "sequence"])
    op.create_index("jobs_by_project", "jobs", ["project", "state", "sequence"])
    op.create_index("jobs_by_name", "jobs", ["name", "state", "sequence"])


def _job_tasks() -> None:
    op.create_table(
        "job_tasks",
        sa.Column("job_id", sa.Text, sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("is_array", sa.Boolean, nullable=False),
        sa.Column("max_running", sa.Integer),
        sa.Column("spec", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number"),
        sa.UniqueConstraint("job_id", "name", name="job_tasks_name"),
    )
