"""What a PostgreSQL role needs to add to a ledger, and to do nothing else to it."""

from __future__ import annotations

GRANTS = """\
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT ON {schema}.ledger_entries TO {role};
GRANT SELECT, INSERT, DELETE ON {schema}.ledger_salts TO {role};
GRANT SELECT ON {schema}.alembic_version TO {role};
"""


def role_sql(role: str, schema: str = "public") -> str:
    """What the owner of a PostgreSQL database runs, so that a role can add to the ledger and shred salts, and nothing else.

    Args:
        role, schema: names, which are quoted.

    Example:
        >>> print(role_sql("unplug_writer").splitlines()[1])
        GRANT SELECT, INSERT ON "public".ledger_entries TO "unplug_writer";
    """
    return GRANTS.format(role=_quoted(role), schema=_quoted(schema))


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'
