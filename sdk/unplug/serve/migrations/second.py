"""The second version: whose a job and a request are, which recipe each name stands for, how far
certificates are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """What is there already is nobody's: the next server takes the jobs, and anyone who sends a
    request again has it.
    """
    for name in ("recipe", "recipe_sha256", "certificates"):
        op.add_column("service_jobs", sa.Column(name, sa.Text))
    op.create_table(
        "service_recipes",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("lease", sa.Double().with_variant(sa.REAL, "sqlite"), nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "service_owners",
        sa.Column("request", sa.Text, primary_key=True),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("names", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False),
        sa.Column("over", sa.Integer, nullable=False),
        sqlite_strict=True,
    )
    op.create_index("service_owners_open", "service_owners", ["token", "over"])
