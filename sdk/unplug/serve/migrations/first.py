"""The first version: tokens, jobs, what happened to jobs, and which file each model is served from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Makes the tables. All of them may be changed: what must not be lies in the ledger."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "service_tokens",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("scopes", sa.Text, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("expires", sa.Text),
        sa.Column("revoked", sa.Text),
        sqlite_strict=True,
    )
    op.create_table(
        "service_jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("number", number, nullable=False, unique=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("fence", number, nullable=False),
        sa.Column("attempts", number, nullable=False),
        sa.Column("worker", sa.Text),
        sa.Column(
            "lease", sa.Double().with_variant(sa.REAL, "sqlite")
        ),  # seconds: 4 bytes would be too few
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("started", sa.Text),
        sa.Column("finished", sa.Text),
        sa.Column("requests", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("error", sa.Text),
        sqlite_strict=True,
    )
    op.create_table(
        "service_events",
        sa.Column("number", number, primary_key=True, autoincrement=False),
        sa.Column("job", sa.Text, nullable=False, index=True),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "service_models",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("artifact", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.Column("job", sa.Text),
        sa.Column("since", sa.Text, nullable=False),
        sqlite_strict=True,
    )
