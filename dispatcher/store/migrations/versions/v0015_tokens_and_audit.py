"""Tokens, and who changed what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables; in a store from before, nobody had a token, and nothing was written down."""
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("projects", sa.LargeBinary, nullable=False),
        sa.Column("default_project", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("revoked_at", sa.Double),
        sa.Column("revoked_by", sa.Text, nullable=False),
        sa.Column("last_used_at", sa.Double),
    )
    op.create_table(
        "audit",
        sa.Column("sequence", sa.BigInteger, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("user", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("door", sa.Text, nullable=False),
        sa.Column("token_id", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("made", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
    )
    op.create_index("audit_by_at", "audit", ["at"])
    op.create_index("audit_by_user", "audit", ["user", "sequence"])
    op.create_index("audit_by_token_id", "audit", ["token_id", "sequence"])
