"""The first version: entries that can be added and nothing else, salts that can be added and
deleted.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = "the ledger is append-only"

SQLITE = (
    f"""CREATE TRIGGER ledger_entries_no_update BEFORE UPDATE ON ledger_entries
        BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END""",
    f"""CREATE TRIGGER ledger_entries_no_delete BEFORE DELETE ON ledger_entries
        BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END""",
    # INSERT OR REPLACE deletes without asking the trigger above; it cannot where only the next
    # number is taken.
    f"""CREATE TRIGGER ledger_entries_in_order BEFORE INSERT ON ledger_entries
        WHEN NEW.sequence IS NOT (SELECT COALESCE(MAX(sequence) + 1, 0) FROM ledger_entries)
        BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END""",
    f"""CREATE TRIGGER ledger_salts_no_update BEFORE UPDATE ON ledger_salts
        BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END""",
    f"""CREATE TRIGGER ledger_salts_once BEFORE INSERT ON ledger_salts
        WHEN EXISTS (SELECT 1 FROM ledger_salts WHERE request = NEW.request)
        BEGIN SELECT RAISE(ABORT, '{APPEND_ONLY}'); END""",
)
POSTGRESQL = (
    f"""CREATE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION '{APPEND_ONLY}' USING ERRCODE = 'insufficient_privilege'; END $$""",
    f"""CREATE FUNCTION ledger_in_order() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN
          IF NEW.sequence <> (SELECT COALESCE(MAX(sequence) + 1, 0) FROM ledger_entries) THEN
            RAISE EXCEPTION '{APPEND_ONLY}' USING ERRCODE = 'insufficient_privilege';
          END IF;
          RETURN NEW;
        END $$""",
    """CREATE TRIGGER ledger_entries_in_order BEFORE INSERT ON ledger_entries
        FOR EACH ROW EXECUTE FUNCTION ledger_in_order()""",
    """CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
        FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()""",
    """CREATE TRIGGER ledger_salts_no_update BEFORE UPDATE OR TRUNCATE ON ledger_salts
        FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse()""",
)


def upgrade() -> None:
    """Makes the tables and the triggers that keep them append-only."""
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "ledger_entries",
        sa.Column("sequence", number, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("edge", sa.LargeBinary, nullable=False),
        sa.Column("signature", sa.LargeBinary, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "ledger_salts",
        sa.Column("request", sa.Text, primary_key=True),
        sa.Column("salt", sa.Text, nullable=False),
        sqlite_strict=True,
    )
    for statement in SQLITE if op.get_context().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(statement)
