"""What a comparison says of itself besides its rows: what went in, how it was measured, and what a reader must know."""

from __future__ import annotations

import platform
from typing import Any

import torch

from unplug.sdk.audit.stats import CONFIDENCE
from unplug.sdk.train.device import describe_device
from unplug.sdk.versions import versions

from . import bootstrap, frechet
from .edges import TOLERANCE
from .judge import parameters
from .metrics import CONTROL_ERROR
from .report import ComparisonReport, FeatureFacts, JudgeFacts, Picture, Row
from .setup import Setup, seen_by_base


def report_of(setup: Setup, rows: tuple[Row, ...], features: FeatureFacts, judge: JudgeFacts | None) -> ComparisonReport:
    """The whole report."""
    request, dataset = setup.request, setup.dataset
    base: Any = setup.base
    recipe = {name: value for name, value in request.recipe.to_dict().items() if name != "lr"}
    named = zip(setup.sources.ids, setup.prompts, setup.picture_seeds, strict=True)
    return ComparisonReport(
        condition={"kind": request.condition, "settings": setup.condition, "without": setup.missing},
        base={
            "name": request.base.rstrip("/").rpartition("/")[2], "sha256": setup.base_sha256, "image_size": dataset.size,
            "parameters": {name: parameters(getattr(base, name)) for name in ("unet", "vae", "text_encoder")},
        },
        data={
            "spec": dataset.spec, "digest": dataset.digest, "samples": len(dataset), "split": setup.split.sha256,
            "train": len(setup.train), "pictures": len(setup.sources), "real": len(setup.others),
            "unusable": len(dataset.problems),
        },
        recipe=recipe,
        reference=request.reference,
        rows=rows,
        pictures=tuple(Picture(id=name, prompt=prompt, seed=seed) for name, prompt, seed in named),
        features=features,
        judge=judge,
        notes=tuple(_notes(setup, features, judge)),
        settings=_settings(setup),
        versions=versions() | {"machine": platform.machine()},
    )  # fmt: skip


def _settings(setup: Setup) -> dict[str, Any]:
    request = setup.request
    return {
        "sampling_steps": request.sampling_steps,
        "guidance": request.guidance,
        "seed": request.seed,
        "training_seeds": list(request.training_seeds),
        "timing_rounds": request.rounds,
        "device": describe_device(setup.device),
        "threads": torch.get_num_threads(),
        "confidence": CONFIDENCE,
        "replicates": bootstrap.REPLICATES,
        "frechet_replicates": frechet.REPLICATES,
        "edge_tolerance_px": TOLERANCE * setup.dataset.size,
    }


def _notes(setup: Setup, features: FeatureFacts, judge: JudgeFacts | None) -> list[str]:
    request = setup.request
    notes = [
        f"All controls were trained beside the same frozen base on the same {len(setup.train)} samples, with the same batches, "
        f"noise and noise levels; learning rates differ and stand in the table of trainings.",
    ]
    if request.seeds == 1:
        notes.append(
            "Each control was trained once: intervals are over pictures, and differences between trainings are not in them."
        )
    else:
        notes.append(f"Intervals are over pictures and over {request.seeds} trainings of each control.")
    kept = "" if features.components is None else (
        f", in their first {features.components} principal components ({100 * features.variance:.0f} % of the real pictures' "
        f"variance; {len(setup.sources)} pictures are too few for all)"
    )  # fmt: skip
    notes.append(
        f"Fréchet distances are in {features.width} features{kept}. Features: {features.name}. They are not those of published "
        "FID numbers, and only rows of this table can be compared. The row of the source pictures is the distance of real "
        "from other real pictures at the same sample size. Intervals are centred on the value: resampling alone makes any "
        "Fréchet distance larger."
    )
    if judge is None:
        notes.append("The data names no attributes, so there is no judge and nothing on how well prompts are kept.")
        notes.append("The features are those of the autoencoder that made the pictures, which favours what it can draw.")
    else:
        notes.append(
            f"The judge reads {100 * judge.overall:.1f} % of what prompts name on {judge.held_out} real held-out faces: that "
            "and the row of the source pictures are the ceiling of every row."
        )
    if request.condition not in CONTROL_ERROR:
        notes.append(f"There is no control error for the condition {request.condition}.")
    if setup.missing:
        notes.append(f"{setup.missing} samples in which the condition was not found were left out everywhere.")
    if seen_by_base(setup):
        notes.append(
            "The base was trained on the same data and may have seen some of the held-out pictures, alike in every row."
        )
    if setup.plugin is not None:
        notes.append("The plugin was not trained here; its record says that it was trained in the same way.")
    return notes
