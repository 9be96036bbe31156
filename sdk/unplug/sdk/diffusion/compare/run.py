"""``unplug compare-control``: train, draw, measure, time, and write the comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from unplug.plugins.files import atomic_path
from unplug.sdk.train.state import fingerprint

from .bootstrap import make_draws
from .contenders import Contender, contender
from .costs import first_condition, load_seconds, picture_macs, save_seconds, speeds, time_pictures
from .drafts import draw_drafts
from .frechet import frechet_rows, projection
from .pictures import pipeline
from .reader import Reader, make_reader
from .report import ComparisonReport, FeatureFacts, Row, Speed
from .request import CompareRequest
from .rows import Draft, finish, with_frechet
from .setup import Setup, prepare
from .sheet import comparison_sheet
from .summary import report_of

Contenders = Mapping[str, tuple[Contender, ...]]


def compare_controls(
    request: CompareRequest, *, device: torch.device, show: bool = True, say: Callable[[str], None] = lambda _: None
) -> ComparisonReport:
    """Trains the controls, draws pictures with each, measures them, and writes compare.json and compare.png.

    What a killed or an earlier call has finished in ``request.out`` (trainings, pictures, timings) is used again.

    Args:
        request: what to compare.
        device: where to compute.
        show: progress bars.
        say: takes progress lines.

    Raises:
        InputError, DataError, CheckpointError: see `prepare` and `contender`.
        TrainingError, ConversionError, OutputError: what training, the Face Landmarker and the disk raise.
    """
    setup = prepare(request, device=device, show=show, say=say)
    contenders = {name: tuple(contender(setup, name, seed) for seed in request.training_seeds) for name in request.controls}
    say("training the judge, or finding it in the cache")
    reader = make_reader(setup)
    drafts, shown = draw_drafts(setup, contenders, reader)
    say("counting and timing")
    costs = _costs(setup, contenders)
    rows, features = _rows(setup, drafts, reader)
    report = report_of(setup, tuple(_with_costs(row, costs) for row in rows), features, reader.judge)
    with atomic_path(request.out / "compare.png") as temporary:
        comparison_sheet(setup, shown).save(temporary, format="PNG")
    report.save(request.out / "compare.json")
    return report


def _rows(setup: Setup, drafts: list[Draft], reader: Reader) -> tuple[list[Row], FeatureFacts]:
    request = setup.request
    subjects, others = setup.subjects(setup.sources), setup.subjects(setup.others)
    draws = make_draws(subjects, request.seeds, seed=request.seed)
    reference = next((draft for draft in drafts if draft.row.name == request.reference), None)
    real_ND = reader.features(setup.other_NHWC)
    reduce = projection(real_ND, len(setup.sources))
    found = frechet_rows(
        {draft.row.name: [reduce(one) for one in draft.features] for draft in drafts}, reduce(real_ND),
        row_subjects=subjects, real_subjects=others, seed=request.seed,
    )  # fmt: skip
    rows = []
    for draft in drafts:
        name, rival = draft.row.name, None
        if reference is not None and draft is not reference and draft.row.role != "floor":
            rival = found[reference.row.name]
        rows.append(with_frechet(finish(draft, reference, draws), found[name], rival, sum(len(one) for one in draft.features)))
    width, components = reduce.axes_DK.shape
    facts = FeatureFacts(
        name=reader.name, width=width, components=None if components == width else components, variance=reduce.kept,
        real=len(real_ND),
    )  # fmt: skip
    return rows, facts


def _costs(setup: Setup, contenders: Contenders) -> dict[str, tuple[float, Speed]]:
    """Multiply-accumulates and speed of the base and of each control's first training."""
    extra = first_condition(setup)
    pipes: dict[str, tuple[Any, dict[str, Any]]] = {"base": (setup.base, {})}
    pipes |= {name: (pipeline(setup, own[0].control, own[0].load(setup)), extra) for name, own in contenders.items()}
    macs = {name: picture_macs(setup, pipe, given) for name, (pipe, given) in pipes.items()}
    path, rounds = setup.request.out / "timing.json", setup.request.rounds
    key = fingerprint(
        base=setup.base_sha256, controls={name: own[0].sha256 for name, own in contenders.items()}, rounds=rounds,
        steps=setup.request.sampling_steps, guidance=setup.request.guidance, device=str(setup.device),
        threads=torch.get_num_threads(),
    )  # fmt: skip
    if (seconds := load_seconds(path, key, list(pipes), rounds)) is None:
        seconds = time_pictures(setup, pipes)
        save_seconds(path, key, seconds)
    return {name: (macs[name], speed) for name, speed in speeds(seconds).items()}


def _with_costs(row: Row, costs: Mapping[str, tuple[float, Speed]]) -> Row:
    if row.name not in costs:
        return row
    macs, speed = costs[row.name]
    return replace(row, macs=macs, speed=speed)
