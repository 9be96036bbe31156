"""``unplug compare-control``: train, draw, measure, time, and write the comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from unplug.core import atomic_path

from .bootstrap import make_draws
from .contenders import enter, use_sampling_attention
from .costs import measure_costs
from .drafts import draw_drafts
from .frechet import frechet_rows, projection
from .kid import kid_rows
from .reader import Reader, make_reader
from .report import ComparisonReport, FeatureFacts, Row
from .request import CompareRequest
from .rows import Draft, finish, with_distances
from .setup import Setup, prepare
from .sheet import comparison_sheet
from .summary import report_of


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
    entrants = {name: enter(setup, name) for name in request.controls}
    use_sampling_attention(setup.base.unet)
    say("training the judge, or finding it in the cache")
    reader = make_reader(setup)
    drafts, shown = draw_drafts(setup, entrants, reader)
    say("counting and timing")
    costs, timing = measure_costs(setup, {name: entrant.own[0] for name, entrant in entrants.items()})
    rows, features = _rows(setup, drafts, reader)
    rows = [replace(row, macs=costs[row.name][0], speed=costs[row.name][1]) if row.name in costs else row for row in rows]
    report = report_of(setup, tuple(rows), features, reader.judge, timing)
    with atomic_path(request.out / "compare.png") as temporary:
        comparison_sheet(setup, shown).save(temporary, format="PNG")
    report.save(request.out / "compare.json")
    return report


def _rows(setup: Setup, drafts: list[Draft], reader: Reader) -> tuple[list[Row], FeatureFacts]:
    request = setup.request
    subjects, others = setup.subjects(setup.sources), setup.subjects(setup.others)
    draws = make_draws(subjects, seed=request.seed)
    reference = next((draft for draft in drafts if draft.row.name == request.reference), None)
    real_ND = reader.features(setup.other_NHWC)
    reduce = projection(real_ND, len(setup.sources))
    frechet = frechet_rows(
        {draft.row.name: [reduce(one) for one in draft.features] for draft in drafts}, reduce(real_ND),
        row_subjects=subjects, real_subjects=others, seed=request.seed,
    )  # fmt: skip
    kid = kid_rows(
        {draft.row.name: draft.features for draft in drafts}, real_ND, row_subjects=subjects, real_subjects=others,
        seed=request.seed,
    )  # fmt: skip
    rows = []
    for draft in drafts:
        name, rival = draft.row.name, None
        if reference is not None and draft is not reference and draft.row.role != "floor":
            rival = frechet[reference.row.name], kid[reference.row.name]
        count = sum(len(one) for one in draft.features)
        rows.append(with_distances(finish(draft, reference, draws), frechet[name], kid[name], rival, count))
    width, components = reduce.axes_DK.shape
    facts = FeatureFacts(
        name=reader.name, width=width, components=None if components == width else components, variance=reduce.kept,
        real=len(real_ND),
    )  # fmt: skip
    return rows, facts
