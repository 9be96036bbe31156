"""A release of the tiny model, and what one is made from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unplug.sdk.forgetting.tasks import task_of
from unplug.sdk.learning.data import Dataset
from unplug.sdk.releasing import Release, ReleaseConfig, release
from unplug.sdk.releasing.material import ReleaseMaterial

from ..conftest import CPU, QUICK, World


def releasing(
    world: World,
    folder: Path,
    config: ReleaseConfig = QUICK,
    *,
    dataset: Dataset | None = None,
    **more: Any,
) -> Release:
    """Releases into a folder, beside the oracle that is there already."""
    how: dict[str, Any] = {"oracle": world.oracle, "say": lambda _: None, "show": False}
    return release(
        world.original,
        dataset or world.dataset,
        world.forget_ids,
        folder / "age.unplug",
        folder / "work",
        config,
        device=CPU,
        **how | more,
    )


def material_of(world: World, work: Path, config: ReleaseConfig = QUICK) -> ReleaseMaterial:
    return ReleaseMaterial(
        original=world.original,
        dataset=world.dataset,
        forget_ids=world.forget_ids,
        config=config,
        work=work,
        device=CPU,
        task=task_of(world.original, device=CPU),
        show=False,
    )
