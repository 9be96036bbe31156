"""Versions of the service's tables, one Alembic script each; they lie next to the ledger's and have
a version of their own.
"""
