"""For whom an instance is bought, so that a new process charges the same account for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; of older launches nobody knows for whom they were made."""
    op.add_column("launches", sa.Column("payer_project", sa.Text))
    op.add_column("launches", sa.Column("payer_user", sa.Text))
