"""The instances that are gone, in the order in which they are listed."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let the index by when they went tell those apart that went at the same time."""
    op.drop_index("instances_by_gone", "instances")
    op.create_index("instances_by_gone", "instances", ["gone_at", "id"])
