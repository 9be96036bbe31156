"""How much memory a device has left: of the GPU, or of the system and of the container around this process."""

from __future__ import annotations

from pathlib import Path

import torch

NO_LIMIT = 2**60  # control groups of version 1 write "none" as a huge number


def free_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """Bytes that can still be had: of the GPU, or the lesser of the system's and the container's; None where unknown.

    Args:
        device: CUDA counts what torch has reserved and does not use as free.
        root: of the system's ``proc`` and ``sys``.
    """
    if device.type == "cuda":
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + idle
    found = [value for value in (_available(root / "proc/meminfo"), *_groups(root)) if value is not None]
    return min(found, default=None)


def _available(meminfo: Path) -> int | None:
    if not meminfo.is_file():
        return None
    lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="utf-8").splitlines() if ":" in line)
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else None


def _groups(root: Path) -> list[int]:
    """What each control group around this process has left; file pages that can be dropped count as free."""
    listing = root / "proc/self/cgroup"
    if not listing.is_file():
        return []
    left = []
    for line in listing.read_text(encoding="utf-8").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        names = ("memory.max", "memory.current") if not kinds else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        base = root / "sys/fs/cgroup" / ("memory" if kinds else "")
        # Inside a container the path may be the host's, with only the group itself mounted at the base.
        for group in {base, base / path.strip("/"), *(base / path.strip("/")).parents}:
            if group.is_relative_to(base) and (group / names[0]).is_file() and (group / names[1]).is_file():
                limit = (group / names[0]).read_text(encoding="utf-8").strip()
                if limit != "max" and int(limit) < NO_LIMIT:
                    used = int((group / names[1]).read_text(encoding="utf-8"))
                    left.append(max(0, int(limit) - used + _droppable(group / "memory.stat")))
    return left


def _droppable(stat: Path) -> int:
    rows = dict(line.split() for line in stat.read_text(encoding="utf-8").splitlines()) if stat.is_file() else {}
    return int(rows.get("total_inactive_file", rows.get("inactive_file", 0)))
