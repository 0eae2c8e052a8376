"""What an attempt was given, where its instance type has defaults of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; older attempts were given what their container asks for."""
    op.add_column("attempts", sa.Column("resources", sa.LargeBinary))
