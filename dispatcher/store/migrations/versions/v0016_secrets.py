"""Secrets of projects, encrypted, and the keys that they are encrypted with, encrypted too."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make both tables; there were no secrets before."""
    known = set(sa.inspect(op.get_bind()).get_table_names())
    if "secrets" not in known:
        op.create_table(
            "secrets",
            sa.Column("project", sa.Text, nullable=False),
            sa.Column("name", sa.Text, nullable=False),
            sa.Column("ciphertext", sa.Text, nullable=False),
            sa.Column("updated_at", sa.Double, nullable=False),
            sa.Column("updated_by", sa.Text, nullable=False),
            sa.PrimaryKeyConstraint("project", "name"),
        )
    if "secret_data_keys" not in known:
        op.create_table(
            "secret_data_keys",
            sa.Column("id", sa.Text, primary_key=True),
            sa.Column("ciphertext", sa.Text, nullable=False),
            sa.Column("created_at", sa.Double, nullable=False),
        )
