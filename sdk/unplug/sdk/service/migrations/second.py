"""The second version: whose a job is, which recipe each name stands for, and how far the certificates of a release are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Jobs that there are already are nobody's: the next server that starts takes them."""
    for name in ("recipe", "recipe_sha256", "certificates"):
        op.add_column("service_jobs", sa.Column(name, sa.Text))
    op.create_table(
        "service_recipes",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("lease", sa.Double().with_variant(sa.REAL, "sqlite"), nullable=False),
        sqlite_strict=True,
    )
