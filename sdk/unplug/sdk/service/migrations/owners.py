"""The second version: which token made which request."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the table. Requests of before are nobody's until their token sends them once more."""
    op.create_table(
        "service_owners",
        sa.Column("request", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("names", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("over", sa.Integer, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("service_owners_open", "service_owners", ["token", "over"])
