"""For whom an attempt makes way."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; of what is known nothing makes way."""
    op.add_column("attempts", sa.Column("ending_for", sa.Text, nullable=False, server_default=""))
