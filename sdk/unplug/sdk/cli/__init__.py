"""The ``unplug`` command: one file a command, imported when it is called."""

from __future__ import annotations

from .main import main

__all__ = ["main"]
