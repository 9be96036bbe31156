"""Peak memory of the running process."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def _status_bytes(field: str) -> int | None:
    status = Path("/proc/self/status")
    if not status.is_file():
        return None
    match = re.search(rf"^{field}:\s+(\d+) kB", status.read_text(encoding="ascii"), re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def peak_rss_bytes() -> int | None:
    """Largest resident set of this process so far, or None where the system does not tell.

    Linux keeps it per address space (VmHWM); ``ru_maxrss`` would hand a small child its parent's
    peak.
    """
    if (peak := _status_bytes("VmHWM")) is not None:
        return peak
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss_bytes() -> int | None:
    """Resident set of this process now, or None where the system does not tell."""
    return _status_bytes("VmRSS")
