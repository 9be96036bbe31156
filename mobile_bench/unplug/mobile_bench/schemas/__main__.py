"""Writes the schema anew: ``python -m unplug.mobile_bench.schemas``."""

from pathlib import Path

from unplug.core import schema_text

from . import SCHEMAS

for name, kind in SCHEMAS.items():
    Path(__file__).with_name(name).write_text(schema_text(kind, name), encoding="utf-8")
