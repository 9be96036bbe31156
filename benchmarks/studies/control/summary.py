"""What a comparison says of itself besides its rows: verdicts, what went in, and what a reader must
know.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any, Literal

import torch

from unplug.core import DataError, versions
from unplug.core import installed_versions as installed
from unplug.plugins.conditions import build_condition, portable
from unplug.sdk.drawing.diffusion import CONTROLS, base_record
from unplug.sdk.evidence.statistics import CONFIDENCE
from unplug.sdk.learning.data import SynthSource, make_split, parse_spec
from unplug.sdk.learning.training import describe_device

from . import bootstrap, distances
from .contenders import VALIDATED
from .errors import TOLERANCE
from .judge import parameters
from .report import (
    CONTROL_ERROR,
    JUDGED,
    METRICS,
    ComparisonReport,
    FeatureFacts,
    JudgeFacts,
    Picture,
    Row,
    Verdict,
    apart,
    ends,
    number,
)
from .setup import Setup
from .trainings import FLAT

Outcome = Literal["holds", "does not hold", "cannot tell"]
NO_WORSE, WITHIN = "control error no worse than {}'s", "Fréchet distance within 1 % of {}'s"
MOST_RATIO = 1.01
WORST_FIRST: tuple[Outcome, ...] = ("does not hold", "cannot tell", "holds")


def verdicts_of(rows: Sequence[Row], reference: str | None, condition: str) -> tuple[Verdict, ...]:
    """Two verdicts on each control beside the reference; none without one."""
    label = next((row.label for row in rows if row.name == reference), None)
    if label is None:
        return ()
    verdicts = []
    for row in rows:
        if row.role == "control" and row.name != reference:
            for claim, (outcome, why) in (
                (NO_WORSE, _control_error(row, condition)),
                (WITHIN, _distance(row)),
            ):
                verdicts.append(
                    Verdict(row=row.name, claim=claim.format(label), outcome=outcome, why=why)
                )
    return tuple(verdicts)


def decide(low: float | None, high: float | None, most: float) -> Outcome:
    """Whether a number is at most `most`, by its interval.

    Example:
        >>> decide(-0.2, 0.0, 0.0), decide(0.1, 0.3, 0.0), decide(-0.1, 0.2, 0.0), decide(None, None, 0.0)
        ('holds', 'does not hold', 'cannot tell', 'cannot tell')
    """
    if low is None or high is None:
        return "cannot tell"
    return "holds" if high <= most else "does not hold" if low > most else "cannot tell"


def _control_error(row: Row, condition: str) -> tuple[Outcome, str]:
    """Every number of `JUDGED` must hold; one that does not hold decides."""
    outcomes, reasons = set[Outcome](), list[str]()
    for name in JUDGED.get(condition, ()):
        measure, metric = row.measures.get(name), METRICS[name]
        gap = None if measure is None else measure.difference
        if gap is None:
            outcomes.add("cannot tell")
            reasons.append(f"{metric.label}: {row.missing.get(name, 'no picture counts in both')}")
            continue
        worse = (
            (gap.low, gap.high) if metric.better == "lower" else (_minus(gap.high), _minus(gap.low))
        )
        outcomes.add(decide(*worse, 0.0))
        reasons.append(f"{metric.label} {apart(gap, metric)}{' points' if metric.percent else ''}")
    if not outcomes:
        return "cannot tell", f"there is no control error for the condition {condition}"
    return next(one for one in WORST_FIRST if one in outcomes), "; ".join(reasons)


def _distance(row: Row) -> tuple[Outcome, str]:
    measure = row.measures.get("frechet_ratio")
    if measure is not None:
        metric = METRICS["frechet_ratio"]
        return decide(
            measure.low, measure.high, MOST_RATIO
        ), f"ratio {number(measure, metric)} ({ends(measure, metric)})"
    return "cannot tell", row.missing.get("frechet_ratio", "no Fréchet distance")


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


def seen_by_base(setup: Setup) -> str | None:
    """What the base's record says about the held-out samples, in a sentence; None where it says
    nothing of the kind.
    """
    record = base_record(setup.request.base)
    data = record.get("data")
    if not isinstance(data, dict):
        return None
    if data.get("digest") != setup.dataset.digest:
        seed = _synth_seed(str(data.get("spec")))
        if seed is None or seed != _synth_seed(setup.dataset.spec):
            return None
        same = f"The base was trained on synthetic faces of the same seed ({seed})"
        return f"{same}: the same faces can be in both, alike in every row."
    held_out, known = (
        (*setup.sources.ids, *setup.others.ids),
        _trained_on(setup, record.get("split")),
    )
    if known is None:
        return (
            "The base was trained on the same data and may have seen any of the held-out pictures, "
            "alike in every row."
        )
    return (
        f"The base was trained on the same data: {len(known.intersection(held_out))} of the "
        f"{len(held_out)} held-out samples "
        f"are in its training set, {len(known.intersection(setup.sources.ids))} of them among the "
        f"{len(setup.sources)} that "
        "pictures are made from, alike in every row."
    )


def _synth_seed(spec: str) -> int | None:
    source = parse_spec(spec) if spec.startswith("synth:") else None
    return source.options["seed"] if isinstance(source, SynthSource) else None


def _trained_on(setup: Setup, split: Any) -> set[str] | None:
    """Ids of the base's training set, split again by the seed and the sizes in its record; None
    where that fails.
    """
    total = len(setup.dataset)
    try:
        validation, test = (
            int(split["validation"]),
            total - int(split["train"]) - int(split["validation"]),
        )
        made = make_split(
            setup.dataset, seed=int(split["seed"]), validation=validation / total, test=test / total
        )
    except (KeyError, TypeError, ValueError, DataError):
        return None
    return set(made.train) if made.sha256 == split.get("sha256") else None


def report_of(
    setup: Setup,
    rows: tuple[Row, ...],
    features: FeatureFacts,
    judge: JudgeFacts | None,
    timing: dict[str, Any],
) -> ComparisonReport:
    """The whole report from what every contender drew and took."""
    request, dataset = setup.request, setup.dataset
    base: Any = setup.base
    recipe = {name: value for name, value in request.recipe.to_dict().items() if name != "lr"}
    named = zip(setup.sources.ids, setup.prompts, setup.picture_seeds, strict=True)
    return ComparisonReport(
        condition={
            "kind": request.condition,
            "settings": setup.condition,
            "without": setup.missing,
            "options": portable(build_condition(request.condition, request.options)),
        },
        base={
            "name": request.base.rstrip("/").rpartition("/")[2],
            "sha256": setup.base_sha256,
            "image_size": dataset.size,
            "parameters": {
                name: parameters(getattr(base, name)) for name in ("unet", "vae", "text_encoder")
            },
        },
        data={
            "spec": dataset.spec,
            "digest": dataset.digest,
            "samples": len(dataset),
            "split": setup.split.sha256,
            "train": len(setup.train),
            "pictures": len(setup.sources),
            "real": len(setup.others),
            "unusable": len(dataset.problems),
            "split_given": request.split is not None,
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
        versions=versions()
        | installed(("diffusers", "transformers"))
        | {"machine": platform.machine()},
    )


def _settings(setup: Setup) -> dict[str, Any]:
    request = setup.request
    return {
        "sampling_steps": setup.sampling.steps,
        "guidance": setup.sampling.guidance,
        "guidance_schedule": setup.sampling.schedule,
        "solver": setup.sampling.solver,
        "seed": request.seed,
        "training_seeds": list(request.training_seeds),
        "control_steps": dict(request.steps),
        "search_steps": request.search_steps,
        "curve_every": request.curve_every,
        "timing_rounds": request.rounds,
        "device": describe_device(setup.device),
        "threads": torch.get_num_threads(),
        "confidence": CONFIDENCE,
        "replicates": bootstrap.REPLICATES,
        "frechet_replicates": distances.REPLICATES,
        "edge_tolerance_px": TOLERANCE * setup.dataset.size,
    }


def _notes(
    setup: Setup, rows: tuple[Row, ...], features: FeatureFacts, judge: JudgeFacts | None
) -> list[str]:
    request = setup.request
    notes = [
        f"All controls were trained beside the same frozen base on the same {len(setup.train)} "
        "samples, with the same batches, "
        f"noise and noise levels; learning rates differ and stand in the table of trainings."
    ]
    others = {name: steps for name, steps in request.steps.items() if steps != request.recipe.steps}
    if others:
        own = ", ".join(f"{CONTROLS.get(name)().label} {steps:,}" for name, steps in others.items())
        notes.append(
            f"Steps of its own ({own}); all others have {request.recipe.steps:,}, and see the "
            "first of the same batches."
        )
    if any(row.tried for row in rows):
        notes.append(
            "Of several learning rates the one with the lowest loss on "
            f"{min(len(setup.validation), VALIDATED)} "
            "validation samples was measured; no row draws from those."
        )
    if request.search_steps is not None and any(row.tried for row in rows):
        notes.append(
            f"Rates were chosen by trainings of {request.search_steps:,} steps with the first seed."
        )
    if request.curve_every:
        notes.append(
            "Gained late: share of what the validation loss lost in training that it lost in the "
            "last third of the steps; flat "
            f"is {100 * FLAT:.0f} % or less. The learning rate falls to a hundredth, which "
            "flattens any curve at its end: flat "
            "says that these steps were used up, not that more of them would have gained nothing."
        )
    if request.seeds == 1:
        notes.append(
            "Each control was trained once: intervals are over pictures, and differences between "
            "trainings are not in them."
        )
    else:
        notes.append(
            f"Intervals are over pictures, widened by Student's t with {request.seeds - 1} degrees "
            "of freedom over "
            f"{request.seeds} trainings of each control; differences are taken training by "
            "training."
        )
    notes += [*_distance_notes(setup, features), *_judge_notes(judge)]
    if request.condition not in CONTROL_ERROR:
        notes.append(f"There is no control error for the condition {request.condition}.")
    if setup.missing:
        notes.append(
            f"{setup.missing} samples in which the condition was not found were left out "
            "everywhere."
        )
    if (seen := seen_by_base(setup)) is not None:
        notes.append(seen)
    if setup.plugin is not None:
        stored = next(one.stored for row in rows for one in row.trainings + row.tried if one.given)
        half = f" Its weights were stored in half precision ({stored})." if stored != "F32" else ""
        notes.append(
            "A plugin was not trained here; its record says that it was trained in the same "
            f"way.{half}"
        )
    return notes


def _distance_notes(setup: Setup, features: FeatureFacts) -> list[str]:
    kept = (
        ""
        if features.components is None
        else (
            f", in their first {features.components} principal components "
            f"({100 * features.variance:.0f} % of the real pictures' "
            f"variance; {len(setup.sources)} pictures are too few for all)"
        )
    )
    return [
        f"Fréchet distances are in {features.width} features{kept}; KID is in all "
        f"{features.width}. Features: {features.name}. "
        "They are not those of published FID numbers, and only rows of this table can be compared.",
        f"Fréchet distances are extrapolated from {len(setup.sources)} pictures a row and "
        f"{features.real} real ones to endless "
        "samples (twice the whole's minus the mean of six halves'), and can come out below zero "
        "where there is no distance: "
        "the row of the source pictures says how far real pictures are from other real ones. "
        "Intervals are the spread of the "
        "replicates moved onto the value: resampling alone makes any Fréchet distance larger.",
    ]


def _judge_notes(judge: JudgeFacts | None) -> list[str]:
    if judge is None:
        return [
            "The data names no attributes, so there is no judge and nothing on how well prompts "
            "are kept.",
            "The features are those of the autoencoder that made the pictures, which favours what "
            "it can draw.",
        ]
    return [
        f"The judge reads {100 * judge.overall:.1f} % of what prompts name on {judge.held_out} "
        "real held-out faces: that and "
        "the row of the source pictures are the ceiling of every row, the row of other samples' "
        "pictures is its floor. What a "
        "prompt does not name (no glasses, no beard) is not judged."
    ]
