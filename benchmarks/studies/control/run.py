"""``python -m benchmarks.studies compare``: train, draw, measure, time, and write the comparison.

Shapes: S trainings, M pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unplug.core import atomic_path
from unplug.sdk.drawing.diffusion import losses
from unplug.sdk.evidence.statistics import projection

from .bootstrap import Resampled, Shares, difference, estimate, make_draws
from .contenders import Contender, Entrant, enter, use_sampling_attention
from .costs import measure_costs
from .curves import curves_figure, has_curves
from .distances import Frechet, frechet_rows, kid_rows
from .errors import Values, control_error
from .judge import Reader, make_reader, parameters
from .pictures import base_pictures, comparison_sheet, control_pictures, through_autoencoder
from .report import ComparisonReport, FeatureFacts, Measure, Raw, Row
from .setup import CompareRequest, Setup, prepare
from .summary import report_of

Array = NDArray[np.float64]
Pixels = NDArray[np.uint8]
ATTRIBUTE = "attribute:"
ABSENT = dict.fromkeys(("nme", "true_nme"), "no face was found in any picture")
NO_RATIO = "the distance to divide by is not clearly above zero"
SOURCE = Row(name="source", label="source picture", role="floor")
SHUFFLED = Row(name="shuffled", label="another sample's source", role="floor")
DECODED = Row(name="autoencoder", label="source through autoencoder", role="floor")


def compare_controls(
    request: CompareRequest,
    *,
    device: torch.device,
    show: bool = True,
    say: Callable[[str], None] = lambda _: None,
) -> ComparisonReport:
    """Trains the controls, draws pictures with each, measures them, and writes compare.json,
    compare.png and curves.png.

    What a killed or an earlier call has finished in ``request.out`` (trainings, pictures, timings)
    is used again.

    Args:
        request: what to compare.
        device: where to compute.
        show: progress bars.
        say: takes progress lines.

    Raises:
        InputError, DataError, CheckpointError: see `prepare` and `contender`.
        TrainingError, ConversionError, OutputError: what training, the Face Landmarker and the disk
            raise.
    """
    setup = prepare(request, device=device, show=show, say=say)
    entrants = {name: enter(setup, name) for name in request.controls}
    use_sampling_attention(setup.base.unet)
    say("training the judge, or finding it in the cache")
    reader = make_reader(setup)
    drafts, shown = draw_drafts(setup, entrants, reader)
    say("counting and timing")
    costs, timing = measure_costs(
        setup, {name: entrant.own[0] for name, entrant in entrants.items()}
    )
    rows, features = finished_rows(setup, drafts, reader)
    rows = [
        replace(row, macs=costs[row.name][0], speed=costs[row.name][1])
        if row.name in costs
        else row
        for row in rows
    ]
    report = report_of(setup, tuple(rows), features, reader.judge, timing)
    with atomic_path(request.out / "compare.png") as temporary:
        comparison_sheet(setup, shown).save(temporary, format="PNG")
    if has_curves(report):
        with atomic_path(request.out / "curves.png") as temporary:
            curves_figure(report).savefig(temporary, format="png")
    report.save(request.out / "compare.json")
    return report


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A row whose numbers are still raw.

    Args:
        row: all else of it.
        values: by name (S, M), NaN where a picture has none.
        attributes: by name (S, M): 1 read as named, 0 not, NaN not named.
        features: (M, D) of each training's pictures.
    """

    row: Row
    values: Mapping[str, Array] = field(default_factory=dict)
    attributes: Mapping[str, Array] = field(default_factory=dict)
    features: Sequence[Array] = ()

    def shares(self) -> dict[str, Shares]:
        """Every number as a ratio of sums; the prompt's attributes together are "consistency"."""
        by_name = {name: Shares.of_values(values_SM) for name, values_SM in self.values.items()}
        if self.attributes:
            parts = [Shares.of_values(values_SM) for values_SM in self.attributes.values()]
            sums_SM, parts_SM = (
                sum(part.sums_SM for part in parts),
                sum(part.parts_SM for part in parts),
            )
            by_name["consistency"] = Shares(
                sums_SM=np.asarray(sums_SM), parts_SM=np.asarray(parts_SM)
            )
        return by_name


def draw_drafts(
    setup: Setup, entrants: Mapping[str, Entrant], reader: Reader
) -> tuple[list[Draft], dict[str, Pixels]]:
    """Draws all pictures and measures each of them.

    Args:
        setup: what the rows share.
        entrants: the trainings of each control.
        reader: reads features and attributes.

    Returns:
        A draft a row; and the pictures of the base and of each control's first training by label,
        for the grid.
    """
    error = control_error(setup)

    def draft(
        row: Row,
        pictures: Sequence[Pixels],
        loss_SM: Array | None = None,
        known: Values | None = None,
    ) -> Draft:
        values = [error(one) for one in pictures] if known is None else [known]
        stacked = {name: np.stack([own[name] for own in values]) for name in values[0]}
        seen = [reader(one) for one in pictures]
        if loss_SM is not None:
            stacked["loss"] = loss_SM
        attributes = {name: np.stack([own[name] for _, own in seen]) for name in seen[0][1]}
        return Draft(
            row=row, values=stacked, attributes=attributes, features=[one for one, _ in seen]
        )

    setup.say(
        f"drawing {len(setup.sources)} pictures with each of {1 + len(entrants)} ways to make them"
    )
    order, moved = range(len(setup.sources)), shuffled(setup.subjects(setup.sources))
    plain = base_pictures(setup)
    drafts = [
        draft(SOURCE, [setup.source_NHWC], known=error.of_sources(order)),
        draft(SHUFFLED, [setup.source_NHWC[moved]], known=error.of_sources(moved)),
        draft(DECODED, [through_autoencoder(setup)]),
        draft(_base_row(setup), [plain], _losses(setup, None)[None]),
    ]
    shown = {"base": plain}
    for name, entrant in entrants.items():
        own, control = entrant.own, entrant.own[0].control
        pictures = [control_pictures(setup, one) for one in own]
        row = Row(
            name=name,
            label=control.label,
            role="control",
            every_step=control.every_step,
            parameters=parameters(own[0].network),
            trainings=tuple(one.training for one in own),
            tried=entrant.tried,
        )
        drafts.append(draft(row, pictures, np.stack([_losses(setup, one) for one in own])))
        shown[control.label] = pictures[0]
    return drafts, shown


def shuffled(subject_M: NDArray[np.int64]) -> list[int]:
    """For each sample another one, by a turn of the list that meets the same person as seldom as
    any.

    Example:
        >>> shuffled(np.array([0, 1, 2, 0]))
        [2, 3, 0, 1]
    """
    shift = min(
        range(1, len(subject_M)),
        key=lambda turn: int((subject_M == np.roll(subject_M, turn)).sum()),
    )
    return [int(index) for index in np.roll(np.arange(len(subject_M)), shift)]


def _base_row(setup: Setup) -> Row:
    base: Any = setup.base
    count = sum(parameters(part) for part in (base.unet, base.vae, base.text_encoder))
    return Row(name="base", label="base", role="base", parameters=count)


def _losses(setup: Setup, one: Contender | None) -> Array:
    """Noise prediction loss of each source (M,), mean over noise levels; None is the bare base."""
    control, network = (None, None) if one is None else (one.control, one.network)
    loss_MT = losses(
        control, network, setup.base, setup.sources, device=setup.device, seed=setup.request.seed
    )
    return np.asarray(loss_MT.mean(dim=1).double().numpy(), np.float64)


def finished_rows(
    setup: Setup, drafts: list[Draft], reader: Reader
) -> tuple[list[Row], FeatureFacts]:
    request = setup.request
    subjects, others = setup.subjects(setup.sources), setup.subjects(setup.others)
    draws = make_draws(subjects, seed=request.seed)
    reference = next((draft for draft in drafts if draft.row.name == request.reference), None)
    real_ND = reader.features(setup.other_NHWC)
    reduce = projection(real_ND, len(setup.sources))
    frechet = frechet_rows(
        {draft.row.name: [reduce(one) for one in draft.features] for draft in drafts},
        reduce(real_ND),
        row_subjects=subjects,
        real_subjects=others,
        seed=request.seed,
    )
    kid = kid_rows(
        {draft.row.name: draft.features for draft in drafts},
        real_ND,
        row_subjects=subjects,
        real_subjects=others,
        seed=request.seed,
    )
    rows = []
    for draft in drafts:
        name, rival = draft.row.name, None
        if reference is not None and draft is not reference and draft.row.role != "floor":
            rival = frechet[reference.row.name], kid[reference.row.name]
        count = sum(len(one) for one in draft.features)
        rows.append(
            with_distances(finish(draft, reference, draws), frechet[name], kid[name], rival, count)
        )
    width, components = reduce.axes_DK.shape
    facts = FeatureFacts(
        name=reader.name,
        width=width,
        components=None if components == width else components,
        variance=reduce.kept,
        real=len(real_ND),
    )
    return rows, facts


def finish(draft: Draft, reference: Draft | None, draws: Array) -> Row:
    """The row with intervals, and with paired differences to the reference control.

    Args:
        draft: the row.
        reference: that control's, or None.
        draws: of `make_draws`, the same for all rows.
    """
    others = (
        reference.shares() if reference is not None and reference.row.name != draft.row.name else {}
    )
    measures, missing = dict[str, Measure](), dict(draft.row.missing)
    for name, shares in draft.shares().items():
        if (found := _measure(shares, others.get(name), draws)) is None:
            missing[name] = ABSENT.get(name, "no picture counts in it")
        else:
            measures[name] = found
    attributes = {
        name: found
        for name, values_SM in draft.attributes.items()
        if (found := _measure(Shares.of_values(values_SM), None, draws)) is not None
    }
    raw = {name: as_raw(values_SM) for name, values_SM in draft.values.items()}
    raw |= {f"{ATTRIBUTE}{name}": as_raw(values_SM) for name, values_SM in draft.attributes.items()}
    return replace(draft.row, measures=measures, attributes=attributes, raw=raw, missing=missing)


def _measure(shares: Shares, reference: Shares | None, draws: Array) -> Measure | None:
    if not shares.parts_SM.any():
        return None
    whole = estimate(shares, draws)
    return Measure(
        value=whole.value,
        low=whole.low,
        high=whole.high,
        pictures=int((shares.parts_SM > 0).sum()),
        difference=None if reference is None else difference(shares, reference, draws),
    )


def with_distances(
    row: Row,
    frechet: Frechet,
    kid: Resampled,
    reference: tuple[Frechet, Resampled] | None,
    pictures: int,
) -> Row:
    """The row with its distances from real pictures, and how these stand to the reference
    control's.
    """
    rivals = (None, None) if reference is None else (reference[0].apart, reference[1])
    measures, missing = dict(row.measures), dict(row.missing)
    for name, own, rival in (("frechet", frechet.apart, rivals[0]), ("kid", kid, rivals[1])):
        found, apart = own.estimate, None if rival is None else own.minus(rival)
        measures[name] = Measure(
            value=found.value, low=found.low, high=found.high, pictures=pictures, difference=apart
        )
    measures["frechet_finite"] = Measure(value=frechet.finite, pictures=pictures)
    if rivals[0] is not None:
        if (ratio := frechet.apart.over(rivals[0])) is None:
            missing["frechet_ratio"] = NO_RATIO
        else:
            measures["frechet_ratio"] = Measure(
                value=ratio.value, low=ratio.low, high=ratio.high, pictures=pictures
            )
    return replace(row, measures=measures, missing=missing)


def as_raw(values_SM: Array) -> Raw:
    """Numbers for JSON: NaN becomes null."""
    return tuple(
        tuple(None if np.isnan(value) else float(value) for value in row) for row in values_SM
    )
