"""Logs as JSON, a line an event, of fields that are known to name nobody.

A line holds the event in fixed words and the fields of `FIELDS`; whatever else a record carries is
left out. Of an exception it holds the type and where it was raised, never its message, which may
quote what somebody sent.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FIELDS = (
    "job",
    "fence",
    "attempt",
    "error",
    "requests",
    "method",
    "route",
    "status",
    "ms",
    "token",
    "model",
    "sha256",
    "batched",
    "work",
)
"""What may stand in a line. ``route`` is the template of a path, without what stood in its place;
``token`` is an id.
"""
LOG = logging.getLogger("unplug.serve")
FRAMES = 6


def log_error(event: str, error: BaseException | None, **fields: object) -> None:
    """A line on what went wrong: of the error its type, and other `FIELDS`."""
    LOG.error(event, extra={"error": type(error).__name__, **fields})


class JsonLogLines(logging.Formatter):
    """One line of JSON a record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record without anything that is not of `FIELDS`."""
        ours = record.name.startswith(LOG.name)
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": str(record.msg) if ours or not record.args else _plain(record),
        }
        line |= {
            name: value for name in FIELDS if (value := getattr(record, name, None)) is not None
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])[-FRAMES:]
            line["where"] = [
                f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames
            ]
        return json.dumps(line)


def _plain(record: logging.LogRecord) -> str:
    """The words of another package's message without what was put into them."""
    return str(record.msg).replace("%s", "…").replace("%d", "…").replace("%r", "…")


def log_config(level: str = "INFO") -> dict[str, Any]:
    """What `logging.config.dictConfig` and uvicorn take: everything on standard error as
    `JsonLogLines`.
    """
    handler = {"class": "logging.StreamHandler", "formatter": "json", "stream": "ext://sys.stderr"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": {"()": "unplug.serve.logs.JsonLogLines"}},
        "handlers": {"err": handler},
        "root": {"handlers": ["err"], "level": "WARNING"},
        "loggers": {
            LOG.name: {"handlers": ["err"], "level": level, "propagate": False},
            "uvicorn": {"handlers": ["err"], "level": "WARNING", "propagate": False},
        },
    }
