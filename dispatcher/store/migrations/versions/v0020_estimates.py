"""Indices of what ended by whose it was and what it is called, and of what succeeded when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_SUCCEEDED = sa.text("outcome = 'useful'")
_ENDED_RUNS = sa.text("until_ms IS NOT NULL AND job_name <> ''")


def upgrade() -> None:
    """Make the indices, unless they are there."""
    op.create_index(
        "ledger_intervals_by_work",
        "ledger_intervals",
        ["user", "job_name", "task", "until_ms"],
        sqlite_where=_ENDED_RUNS,
        postgresql_where=_ENDED_RUNS,
        if_not_exists=True,
    )
    op.create_index(
        "ledger_intervals_succeeded",
        "ledger_intervals",
        ["until_ms", "project", "user", "job_name"],
        sqlite_where=_SUCCEEDED,
        postgresql_where=_SUCCEEDED,
        if_not_exists=True,
    )
