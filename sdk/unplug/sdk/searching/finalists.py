"""The finalists of a search: trained with several seeds, timed, and asked once about people whom the
search never saw.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from unplug.core import ConversionError, sha256_file
from unplug.export import Artifact, measure_parity
from unplug.mobile_bench import Calibration
from unplug.plugins import save_checkpoint, weights_file
from unplug.sdk.drawing.conditions import example_inputs
from unplug.sdk.evidence.fleet import Result
from unplug.sdk.evidence.statistics import mean_estimate
from unplug.sdk.forgetting.tasks import record_of
from unplug.sdk.learning.training import describe_device, predict

from .front import FrontPoint
from .order import TimedOn
from .price import exported, macs, timed
from .space import Space
from .trials import World, errors, sized

Found = Literal["search", "random", "hand"]
Errors = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Finalist:
    """A size that was trained in full with every seed.

    Args:
        name, found, size: see `FrontPoint`.
        places: its checkpoints, one a seed; that of the first has its name.
        file: folder of its exported file.
        results: its trainings, one a seed.
    """

    name: str
    found: Found
    size: str
    places: tuple[Path, ...]
    file: Path
    results: tuple[Result, ...]


def _models(world: World, finalist: Finalist) -> list[nn.Module]:
    """The trained networks, one a seed, on the device of the data."""
    task, models = sized(world.task, finalist.size, 1), list[nn.Module]()
    for result in finalist.results:
        model = task.build(world.sets.train)
        model.load_state_dict({key: torch.from_numpy(one) for key, one in result.tensors.items()})
        models.append(model.to(world.sets.train.device).eval())
    return models


def save_models(world: World, finalist: Finalist, seeds: Sequence[int]) -> None:
    """Writes a checkpoint for each seed, where it is not there yet."""
    task = sized(world.task, finalist.size, world.task.recipe.epochs)
    known = zip(seeds, finalist.places, finalist.results, _models(world, finalist), strict=True)
    for seed, place, result, model in known:
        if place.exists():
            continue
        passes = int(result.facts["passes"])
        cost = {
            "forward": passes,
            "backward": passes,
            "wall_s": result.facts["seconds"],
            "device": describe_device(world.sets.train.device),
        }
        where: Any = (world.sets, world.dataset, world.split)
        record = record_of(task, model, *where, seed=seed, role="original", cost=cost)
        save_checkpoint(model.cpu(), place, record=record, card=task.card(record))


def milliseconds_of(
    finalists: Sequence[Finalist], device: TimedOn
) -> tuple[dict[str, Artifact], dict[str, float]]:
    """The exported file of each, and the milliseconds that it took on this machine: none of a
    device that is not here, or where the machine was too busy to say.

    Raises:
        ConversionError: a file that answers otherwise than its checkpoint.
    """
    places = {item.places[0]: item.file for item in finalists}
    files = exported(places)
    for place, file in zip(places, files, strict=True):
        inputs = example_inputs(file.card.model_type, file.card.iospec, 4)
        if not measure_parity(file, place, inputs).passed:
            why = "it answers otherwise than its checkpoint"
            raise ConversionError(
                f"{place.name}/{file.path.name}",
                why,
                "Run `unplug parity` with `explain` on it",
            )
    named = {item.name: file for item, file in zip(finalists, files, strict=True)}
    if not device.here:
        return named, {}
    found = {row.artifact_sha256: row for row in timed(files, device.threads).rows if row.valid}
    took = {name: found.get(file.card.sha256) for name, file in named.items()}
    return named, {
        name: row.median_ms for name, row in took.items() if row is not None and row.median_ms
    }


def points_of(
    world: World,
    space: Space,
    known: Calibration,
    finalists: Sequence[Finalist],
    files: Mapping[str, Artifact],
    measured_ms: Mapping[str, float],
    seed: int,
) -> list[FrontPoint]:
    """A point a finalist; those that were found are compared with every other."""
    models = {item.name: _models(world, item) for item in finalists}
    # the error of each seed about each picture of the test people
    wrong: dict[str, Errors] = {
        name: np.stack([errors(predict(model, world.sets.test)) for model in trained])
        for name, trained in models.items()
    }
    person_N, points = world.sets.test.subject_N, list[FrontPoint]()
    for item in finalists:
        mine_SN, estimated = wrong[item.name], known.predict(space.work(item.size))
        ends = known.held_out
        less = {
            name: mean_estimate(theirs_SN.mean(0) - mine_SN.mean(0), person_N, seed)
            for name, theirs_SN in wrong.items()
            if item.found == "search" and name != item.name
        }
        held = item.places if item.found == "search" else ()
        points.append(
            FrontPoint(
                name=item.name,
                found=item.found,
                size=item.size,
                parameters=sum(one.numel() for one in models[item.name][0].parameters()),
                macs=macs(space, item.size),
                bytes=files[item.name].path.stat().st_size,
                estimated_ms=estimated,
                low_ms=None if ends is None else estimated * ends.low,
                high_ms=None if ends is None else estimated * ends.high,
                measured_ms=measured_ms.get(item.name),
                validation=float(item.results[0].facts["error"]),
                error=mean_estimate(mine_SN.mean(0), person_N, seed),
                by_seed=tuple(float(row_N.mean()) for row_N in mine_SN),
                less=less,
                weights={place.name: sha256_file(weights_file(place)) for place in held},
            )
        )
    return points
