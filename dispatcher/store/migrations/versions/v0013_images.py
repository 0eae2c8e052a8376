"""What is known of the image of an attempt: when it was fetched, which it was, what is said."""

from __future__ import annotations

import sqlalchemy as sa

from longshore.dispatcher.store import migration_steps

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; nothing is known of the images of the attempts that there are."""
    for name in ("pulling_since", "pulled_at"):
        migration_steps.add_column("attempts", sa.Column(name, sa.Double))
    for name in ("image_digest", "warning"):
        column = sa.Column(name, sa.Text, nullable=False, server_default="")
        migration_steps.add_column("attempts", column)
