"""What a forget step needs of the device's memory, known before it starts, beside what is free.

Sizes are bytes, B is the batch size.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import nn

from unplug.core import InsufficientMemoryError
from unplug.sdk.forgetting.tasks import Footprint, footprint, image_bytes
from unplug.sdk.learning.training import Recipe

from .method import Method

MOMENTS = 2  # AdamW's
VIEWS = 4  # float copies of a batch's images that loading and augmenting it hold at once
# tensors of the widest layer that are alive beside the saved ones: its gradients, and the kernel's
# own copy
TRANSIENT = 3
# of activations and workspace, lost between blocks: peaks on a CPU were 0.95 to 1.25 of the sum
# without it
FRAGMENTS = 0.2
SMALLEST_BATCH = 2  # batch norm


@dataclass(frozen=True, kw_only=True)
class MemoryEstimate:
    """What a forget step needs at its peak, in parts.

    Args:
        phase: the part of the step that needs most: "step" (the method's own), "timing" (of a
            training step of the recipe, before it) or "measuring" (the metrics after it).
        batch_size: samples of the phase's batches.
        data, weights, gradients, optimizer, copies, activations, workspace: bytes of that phase;
            `weights` are those of the original and of the model that is changed, `copies` those of
            teachers and averages.
    """

    phase: str
    batch_size: int
    data: int
    weights: int
    gradients: int = 0
    optimizer: int = 0
    copies: int = 0
    activations: int = 0
    workspace: int = 0

    @property
    def total(self) -> int:
        """Bytes of all parts together."""
        return sum(
            getattr(self, field.name)
            for field in fields(self)
            if field.name not in ("phase", "batch_size")
        )


def estimate_memory(
    measured: Footprint,
    method: Method,
    recipe: Recipe,
    samples: int,
    batch_size: int | None = None,
    resident: int | None = None,
) -> MemoryEstimate:
    """The phase of a forget step that needs most.

    Activations grow with B; a method that reads the forget set may hold two graphs at once (a
    retain and a forget batch in one loss), and one teacher is assumed. A method may say otherwise:
    ``trains = False`` (no gradients), ``copies = N``.

    Args:
        measured: of the model, see `footprint`.
        method: its ``batch_size`` is used where it has one, else the recipe's; never more than
            there are samples.
        recipe: of the original.
        samples: of all sets, resident on the device.
        batch_size: instead of the method's.
        resident: bytes of all samples on the device; None is that of images.
    """
    asked = (
        batch_size
        if batch_size is not None
        else int(getattr(method, "batch_size", recipe.batch_size))
    )
    size, recipes = (
        max(SMALLEST_BATCH, min(count, samples)) for count in (asked, recipe.batch_size)
    )
    data = image_bytes(recipe.image_size, samples) if resident is None else resident
    graphs = 2 if "forget data" in method.needs else 1
    trains, copies = bool(getattr(method, "trains", True)), int(getattr(method, "copies", 1))
    step = (
        _training(measured, "step", size, data, graphs, copies)
        if trains
        else _running(measured, "step", size, data)
    )
    timing = _training(measured, "timing", recipes, data, 1, 1)
    measuring = _running(measured, "measuring", min(measured.measured_at, samples), data)
    return max(step, timing, measuring, key=lambda phase: phase.total)


def check_memory(
    method: Method,
    model: nn.Module,
    recipe: Recipe,
    samples: int,
    device: torch.device,
    free: int | None = None,
    *,
    measured: Footprint | None = None,
    resident: int | None = None,
) -> tuple[MemoryEstimate, int | None]:
    """Refuses a forget step that would not fit.

    Args:
        method, model, recipe: of the step.
        samples: of all sets; they are not loaded yet.
        device: where the step will run.
        free: bytes; None asks the device.
        measured: of the model; None measures it on images.
        resident: see `estimate_memory`.

    Returns:
        The estimate and what is free (None where the system does not tell: nothing is refused
        then).

    Raises:
        InsufficientMemoryError: with the largest batch size that would fit, or the word that none
            does.
    """
    measured = footprint(model, recipe.image_size, device) if measured is None else measured
    needed = estimate_memory(measured, method, recipe, samples, resident=resident)
    free = free_memory(device) if free is None else free
    if free is not None and needed.total > free:
        raise InsufficientMemoryError(
            "forget step",
            f"needs about {gib(needed.total)} where {gib(free)} are free",
            _advice(measured, method, recipe, samples, free, resident),
        )
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    return needed, free


def memory_record(needed: MemoryEstimate, free: int | None, device: torch.device) -> dict[str, Any]:
    """The estimate beside what was measured, JSON-ready: on CUDA torch's peak since `check_memory`,
    else null.
    """
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    return {
        "estimate": {**asdict(needed), "total": needed.total},
        "free_before": free,
        "measured_peak": peak,
    }


def gib(size: int) -> str:
    """5583457485 as "5.2 GiB"; below a tenth of that in MiB."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 / 10 else f"{size / 2**20:.1f} MiB"


def _training(
    measured: Footprint, phase: str, size: int, data: int, graphs: int, copies: int
) -> MemoryEstimate:
    activations = graphs * (measured.fixed + size * measured.per_sample)
    return MemoryEstimate(
        phase=phase,
        batch_size=size,
        data=data,
        weights=2 * measured.weights,
        gradients=measured.trainable,
        optimizer=MOMENTS * measured.trainable,
        copies=copies * measured.weights,
        activations=activations,
        workspace=_workspace(measured, size, activations),
    )


def _running(measured: Footprint, phase: str, size: int, data: int) -> MemoryEstimate:
    workspace = _workspace(measured, size, 0)
    return MemoryEstimate(
        phase=phase, batch_size=size, data=data, weights=2 * measured.weights, workspace=workspace
    )


def _workspace(measured: Footprint, size: int, activations: int) -> int:
    passing = size * (TRANSIENT * measured.widest + VIEWS * measured.image)
    return round(passing + FRAGMENTS * (activations + passing))


def _advice(
    measured: Footprint,
    method: Method,
    recipe: Recipe,
    samples: int,
    free: int,
    resident: int | None,
) -> str:
    elsewhere = "free some memory, or take another `device` or fewer samples"
    size = getattr(method, "batch_size", None)
    if size is None:
        return f"It has no batch size of its own to lower: {elsewhere}"
    smaller = 2 ** ((int(size) - 1).bit_length() - 1) if size > SMALLEST_BATCH else 0
    while smaller >= SMALLEST_BATCH:
        needed = estimate_memory(measured, method, recipe, samples, smaller, resident).total
        if needed <= free:
            return f"Use `batch_size={smaller}` (needs about {gib(needed)})"
        smaller //= 2
    return f"No batch size fits: {elsewhere}"


NO_LIMIT = 2**60  # control groups of version 1 write "none" as a huge number


def free_memory(device: torch.device, root: Path = Path("/")) -> int | None:
    """Bytes that can still be had: of the GPU, or the lesser of the system's and the container's;
    None where unknown.

    Args:
        device: CUDA counts what torch has reserved and does not use as free.
        root: of the system's ``proc`` and ``sys``.
    """
    if device.type == "cuda":
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + idle
    found = [
        value for value in (_available(root / "proc/meminfo"), *_groups(root)) if value is not None
    ]
    return min(found, default=None)


def _available(meminfo: Path) -> int | None:
    if not meminfo.is_file():
        return None
    lines = dict(
        line.split(":", 1)
        for line in meminfo.read_text(encoding="utf-8").splitlines()
        if ":" in line
    )
    return int(lines["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in lines else None


def _groups(root: Path) -> list[int]:
    """What each control group around this process has left; file pages that can be dropped count as
    free.
    """
    listing = root / "proc/self/cgroup"
    if not listing.is_file():
        return []
    left = []
    for line in listing.read_text(encoding="utf-8").splitlines():
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        names = (
            ("memory.max", "memory.current")
            if not kinds
            else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        )
        base = root / "sys/fs/cgroup" / ("memory" if kinds else "")
        # Inside a container the path may be the host's, with only the group itself mounted at the
        # base.
        for group in {base, base / path.strip("/"), *(base / path.strip("/")).parents}:
            if (
                group.is_relative_to(base)
                and (group / names[0]).is_file()
                and (group / names[1]).is_file()
            ):
                limit = (group / names[0]).read_text(encoding="utf-8").strip()
                if limit != "max" and int(limit) < NO_LIMIT:
                    used = int((group / names[1]).read_text(encoding="utf-8"))
                    left.append(max(0, int(limit) - used + _droppable(group / "memory.stat")))
    return left


def _droppable(stat: Path) -> int:
    rows = (
        dict(line.split() for line in stat.read_text(encoding="utf-8").splitlines())
        if stat.is_file()
        else {}
    )
    return int(rows.get("total_inactive_file", rows.get("inactive_file", 0)))
