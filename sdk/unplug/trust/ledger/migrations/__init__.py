"""Versions of the tables, one Alembic script each."""
