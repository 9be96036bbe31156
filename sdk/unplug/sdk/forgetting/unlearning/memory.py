"""What a forget step needs of the device's memory, known before it starts, compared with what is
free.

Sizes are bytes, B is the batch size.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from unplug.core import InsufficientMemoryError
from unplug.sdk.forgetting.tasks import Footprint
from unplug.sdk.learning.training import Recipe

from .method import Method

MOMENTS = 2  # AdamW's
VIEWS = 4  # float copies of a batch's images that loading and augmenting it hold at once
# tensors of the widest layer that are alive besides the saved ones: its gradients, and the kernel's
# own copy
TRANSIENT = 3
# of activations and workspace, lost between blocks: peaks on a CPU were 0.95 to 1.25 of the sum
# without it
FRAGMENTS = 0.2
SMALLEST_BATCH = 2  # batch norm


NOT_BYTES = ("phase", "batch_size")


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
        return sum(value for name, value in asdict(self).items() if name not in NOT_BYTES)


def estimate_memory(
    measured: Footprint,
    method: Method,
    recipe: Recipe,
    samples: int,
    batch_size: int | None = None,
    *,
    resident: int,
) -> MemoryEstimate:
    """The phase of a forget step that needs most.

    Activations grow with B; a method that reads the forget set may hold two graphs at once (a
    retain and a forget batch in one loss), and one teacher is assumed. A method may say otherwise:
    ``trains = False`` (no gradients), ``copies = N``.

    Args:
        measured: the model's footprint, see `footprint`.
        method: its ``batch_size`` is used where it has one, else the recipe's; never more than
            there are samples.
        recipe: the recipe of the original.
        samples: the number of samples in all sets.
        batch_size: instead of the method's.
        resident: bytes of all samples on the device.
    """
    asked = batch_size or int(getattr(method, "batch_size", recipe.batch_size))
    size, recipes = (
        max(SMALLEST_BATCH, min(count, samples)) for count in (asked, recipe.batch_size)
    )
    if getattr(method, "trains", True):
        graphs = 2 if "forget data" in method.needs else 1
        copies = int(getattr(method, "copies", 1))
        step = _training(measured, "step", size, resident, graphs, copies)
    else:
        step = _running(measured, "step", size, resident)
    timing = _training(measured, "timing", recipes, resident, 1, 1)
    measuring = _running(measured, "measuring", min(measured.measured_at, samples), resident)
    return max(step, timing, measuring, key=lambda phase: phase.total)


def check_memory(
    method: Method,
    recipe: Recipe,
    samples: int,
    device: torch.device,
    measured: Footprint,
    *,
    resident: int,
) -> tuple[MemoryEstimate, int | None]:
    """Refuses a forget step that would not fit.

    Args:
        method, recipe: the method and recipe of the step.
        samples: the number of samples in all sets; they are not loaded yet.
        device: the device that will run the step.
        measured: the model's footprint.
        resident: see `estimate_memory`.

    Returns:
        The estimate and what is free (None where the system does not tell: nothing is refused
        then).

    Raises:
        InsufficientMemoryError: with the largest batch size that would fit, or the word that none
            does.
    """
    needed = estimate_memory(measured, method, recipe, samples, resident=resident)
    free = free_memory(device)
    if free is not None and needed.total > free:
        why = f"needs about {gib(needed.total)} where {gib(free)} are free"
        advice = _advice(measured, method, recipe, samples, free, resident)
        raise InsufficientMemoryError("forget step", why, advice)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    return needed, free


def memory_record(needed: MemoryEstimate, free: int | None, device: torch.device) -> dict[str, Any]:
    """The estimate and the measurement, JSON-ready: on CUDA torch's peak since `check_memory`,
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
    # what autograd saved, of each graph that is alive at once
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
    # alive for one layer's time, and for that of loading a batch
    passing = size * (TRANSIENT * measured.widest + VIEWS * measured.image)
    return round(passing + FRAGMENTS * (activations + passing))


def _advice(
    measured: Footprint,
    method: Method,
    recipe: Recipe,
    samples: int,
    free: int,
    resident: int,
) -> str:
    elsewhere = "free some memory, or take another `device` or fewer samples"
    size = getattr(method, "batch_size", None)
    if size is None:
        return f"It has no batch size of its own to lower: {elsewhere}"
    # the next power of two below it, then half after half
    smaller = 2 ** ((int(size) - 1).bit_length() - 1) if size > SMALLEST_BATCH else 0
    while smaller >= SMALLEST_BATCH:
        needed = estimate_memory(
            measured, method, recipe, samples, smaller, resident=resident
        ).total
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
        root: the root of the system's ``proc`` and ``sys``.
    """
    if device.type == "cuda":
        # reserved by torch and empty: it is handed out again without asking the driver
        idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + idle
    return min([*_available(root / "proc/meminfo"), *_groups(root)], default=None)


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def _available(meminfo: Path) -> list[int]:
    lines = [line.split() for line in _lines(meminfo)]
    return [int(words[1]) * 1024 for words in lines if words[:1] == ["MemAvailable:"]]


def _groups(root: Path) -> list[int]:
    """What each control group around this process has left; file pages that can be dropped count as
    free.
    """
    left = []
    for line in _lines(root / "proc/self/cgroup"):
        _, kinds, path = line.split(":", 2)
        # of another controller's tree (version 1)
        if kinds and "memory" not in kinds.split(","):
            continue
        # version 2 has one tree and no kinds, version 1 a tree for each
        names = ("memory.max", "memory.current")
        if kinds:
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        base = root / "sys/fs/cgroup" / ("memory" if kinds else "")
        # Inside a container the path may be the host's, with only the group itself mounted at the
        # base.
        for group in {base, base / path.strip("/"), *(base / path.strip("/")).parents}:
            if not group.is_relative_to(base):
                continue
            limit, used = (_lines(group / name) for name in names)
            if limit and used and limit != ["max"] and int(limit[0]) < NO_LIMIT:
                rows = dict(line.split() for line in _lines(group / "memory.stat"))
                droppable = rows.get("total_inactive_file", rows.get("inactive_file", 0))
                left.append(max(0, int(limit[0]) - int(used[0]) + int(droppable)))
    return left
