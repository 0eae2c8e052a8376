"""An index of what ended by whose it was and what it is called, for estimates."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0019"
branch_labels = None
depends_on = None

_ENDED_RUNS = sa.text("until_ms IS NOT NULL AND job_name <> ''")


def upgrade() -> None:
    """Make the index, unless it is there."""
    op.create_index(
        "ledger_intervals_by_work",
        "ledger_intervals",
        ["user", "job_name", "task", "until_ms"],
        sqlite_where=_ENDED_RUNS,
        postgresql_where=_ENDED_RUNS,
        if_not_exists=True,
    )
