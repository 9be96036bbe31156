"""What a comparison says of itself besides its rows: what went in, how it was measured, and what a reader must know."""

from __future__ import annotations

import platform
from typing import Any

import torch

from unplug.core import installed_versions as installed
from unplug.core import versions
from unplug.plugins.conditions import build_condition, portable
from unplug.sdk.statistics import CONFIDENCE
from unplug.sdk.training import describe_device

from . import bootstrap, frechet
from .contenders import VALIDATED
from .edges import TOLERANCE
from .judge import parameters
from .leakage import seen_by_base
from .metrics import CONTROL_ERROR
from .report import ComparisonReport, FeatureFacts, JudgeFacts, Picture, Row
from .setup import Setup
from .verdicts import verdicts_of


def report_of(
    setup: Setup, rows: tuple[Row, ...], features: FeatureFacts, judge: JudgeFacts | None, timing: dict[str, Any]
) -> ComparisonReport:
    """The whole report."""
    request, dataset = setup.request, setup.dataset
    base: Any = setup.base
    recipe = {name: value for name, value in request.recipe.to_dict().items() if name != "lr"}
    named = zip(setup.sources.ids, setup.prompts, setup.picture_seeds, strict=True)
    return ComparisonReport(
        condition={
            "kind": request.condition, "settings": setup.condition, "without": setup.missing,
            "options": portable(build_condition(request.condition, request.options)),
        },
        base={
            "name": request.base.rstrip("/").rpartition("/")[2], "sha256": setup.base_sha256, "image_size": dataset.size,
            "parameters": {name: parameters(getattr(base, name)) for name in ("unet", "vae", "text_encoder")},
        },
        data={
            "spec": dataset.spec, "digest": dataset.digest, "samples": len(dataset), "split": setup.split.sha256,
            "train": len(setup.train), "pictures": len(setup.sources), "real": len(setup.others),
            "unusable": len(dataset.problems), "split_given": request.split is not None,
        },
        recipe=recipe,
        reference=request.reference,
        rows=rows,
        verdicts=verdicts_of(rows, request.reference, request.condition),
        pictures=tuple(Picture(id=name, prompt=prompt, seed=seed) for name, prompt, seed in named),
        features=features,
        judge=judge,
        notes=tuple(_notes(setup, rows, features, judge)),
        settings=_settings(setup) | {"timing": timing},
        versions=versions() | installed(("diffusers", "transformers")) | {"machine": platform.machine()},
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


def _notes(setup: Setup, rows: tuple[Row, ...], features: FeatureFacts, judge: JudgeFacts | None) -> list[str]:
    request = setup.request
    notes = [
        f"All controls were trained beside the same frozen base on the same {len(setup.train)} samples, with the same batches, "
        f"noise and noise levels; learning rates differ and stand in the table of trainings.",
    ]
    if any(row.tried for row in rows):
        notes.append(
            f"Of several learning rates the one with the lowest loss on {min(len(setup.validation), VALIDATED)} "
            "validation samples was measured; no row draws from those."
        )
    if request.seeds == 1:
        notes.append(
            "Each control was trained once: intervals are over pictures, and differences between trainings are not in them."
        )
    else:
        notes.append(
            f"Intervals are over pictures, widened by Student's t with {request.seeds - 1} degrees of freedom over "
            f"{request.seeds} trainings of each control; differences are taken training by training."
        )
    notes += [*_distance_notes(setup, features), *_judge_notes(judge)]
    if request.condition not in CONTROL_ERROR:
        notes.append(f"There is no control error for the condition {request.condition}.")
    if setup.missing:
        notes.append(f"{setup.missing} samples in which the condition was not found were left out everywhere.")
    if (seen := seen_by_base(setup)) is not None:
        notes.append(seen)
    if setup.plugin is not None:
        stored = next(one.stored for row in rows for one in row.trainings + row.tried if one.given)
        half = f" Its weights were stored in half precision ({stored})." if stored != "F32" else ""
        notes.append(f"A plugin was not trained here; its record says that it was trained in the same way.{half}")
    return notes


def _distance_notes(setup: Setup, features: FeatureFacts) -> list[str]:
    kept = "" if features.components is None else (
        f", in their first {features.components} principal components ({100 * features.variance:.0f} % of the real pictures' "
        f"variance; {len(setup.sources)} pictures are too few for all)"
    )  # fmt: skip
    return [
        f"Fréchet distances are in {features.width} features{kept}; KID is in all {features.width}. Features: {features.name}. "
        "They are not those of published FID numbers, and only rows of this table can be compared.",
        f"Fréchet distances are extrapolated from {len(setup.sources)} pictures a row and {features.real} real ones to endless "
        "samples (twice the whole's minus the mean of six halves'), and can come out below zero where there is no distance: "
        "the row of the source pictures says how far real pictures are from other real ones. Intervals are the spread of the "
        "replicates moved onto the value: resampling alone makes any Fréchet distance larger.",
    ]


def _judge_notes(judge: JudgeFacts | None) -> list[str]:
    if judge is None:
        return [
            "The data names no attributes, so there is no judge and nothing on how well prompts are kept.",
            "The features are those of the autoencoder that made the pictures, which favours what it can draw.",
        ]
    return [
        f"The judge reads {100 * judge.overall:.1f} % of what prompts name on {judge.held_out} real held-out faces: that and "
        "the row of the source pictures are the ceiling of every row, the row of other samples' pictures is its floor. What a "
        "prompt does not name (no glasses, no beard) is not judged."
    ]
