"""A trunk that never saw personal data, and what designs over it read of a picture: pooled
features, rounded.

Shapes: N samples, C pooled channels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from unplug.core import CheckpointError, DataError, InputError, progress
from unplug.plugins import AgePredictor, Checkpoint, Classifier, PictureModel
from unplug.sdk.forgetting.tasks import GroupTask, soft_groups, train_pictures
from unplug.sdk.learning.data import Dataset, fitting, load_again, make_split, opened_again
from unplug.sdk.learning.training import ImageSet, Recipe, split_of, to_class_tensors, to_tensors

from .unfinished import Unfinished

BATCH = 64
"""Pictures a pass, always: the last batch is filled up, since another batch size may round
differently.
"""
GRID = 256
"""Pooled features are rounded to this fraction of their spread before anything is fitted, so that
the last bits of a convolution, which may differ between machines, matter less often. How often was
not measured.
"""
LIFT_BITS = 18
"""The bits of the lift's weights. With some 15 bits of a rounded feature and 2^11 channels at most,
float64 sums them exactly, in any order: a picture then adds the same whatever passes through with
it.
"""
MOST_MEANS = 32
"""A feature's spread is at least this fraction of its mean: what varies less would be amplified
until half precision, which has 11 bits, shows nothing else.
"""


@dataclass(frozen=True, kw_only=True)
class TrunkRows:
    """N samples as a design sees them.

    Args:
        ids: N names.
        people: the people in each picture, see `unplug.sdk.learning.data.Sample.person`.
        pooled_NC: pooled features in float64, rounded to the grid.
        truth_N: years, or the number of the class, in float64.
        committed: SHA-256 of name, rounded features and truth, by name.
    """

    ids: tuple[str, ...]
    people: tuple[str, ...]
    pooled_NC: Tensor
    truth_N: Tensor
    committed: Mapping[str, bytes]

    def named(self, ids: Sequence[str]) -> TrunkRows:
        """Some of them, by their names."""
        place = {name: index for index, name in enumerate(self.ids)}
        return self.part([place[name] for name in ids])

    def part(self, position_M: Sequence[int]) -> TrunkRows:
        """Some of them."""
        ids = tuple(self.ids[position] for position in position_M)
        return TrunkRows(
            ids=ids,
            people=tuple(self.people[position] for position in position_M),
            pooled_NC=self.pooled_NC[position_M],
            truth_N=self.truth_N[position_M],
            committed={name: self.committed[name] for name in ids},
        )


@dataclass(frozen=True, kw_only=True)
class Consented:
    """What a design may learn without asking anybody: the trunk's own pictures, as rows.

    Args:
        every: all that was read.
        seen_ids, held_ids: names of its training and its validation pictures.
        mean_C, spread_C: the moments of the pooled features over the former, before they are
            rounded.
        grid: the grid that features are rounded to.
    """

    every: TrunkRows
    seen_ids: Sequence[str]
    held_ids: Sequence[str]
    mean_C: Tensor
    spread_C: Tensor
    grid: float

    @property
    def seen(self) -> TrunkRows:
        """Its training pictures; a copy, so that a family of trunks keeps each picture once."""
        return self.every.named(self.seen_ids)

    @property
    def held(self) -> TrunkRows:
        """Its validation pictures."""
        return self.every.named(self.held_ids)


def ready_trunk(
    trunk: Checkpoint | None,
    trunk_data: Dataset | None,
    personal: Dataset,
    recipe: Recipe,
    out: Path,
    *,
    kind: type[GroupTask],
    check: Callable[[int], None],
    seed: int,
    device: torch.device,
    restart: bool,
    show: bool,
) -> tuple[Checkpoint, Dataset]:
    """The trunk and its data, loaded or trained where they are not given, and checked to be apart
    from `personal`.

    A trunk that is trained here goes into ``NAME-trunk`` next to `out`, if `check` takes how many
    numbers its answer will have. See `OverTrunk.train`.
    """
    if trunk is None and trunk_data is None:
        why = "it needs a trunk that never saw personal data"
        raise InputError("made to forget", why, "Give `trunk_data` or `trunk`")
    side = recipe.image_size if trunk is None else trunk.model.image_size
    if personal.size != side:
        why = f"its images have {personal.size} pixels where the trunk takes {side}"
        raise DataError(f"data {personal.spec}", why, "Load it at the trunk's size")
    if trunk_data is None:
        assert trunk is not None
        spec = (trunk.record.get("data") or {}).get("spec")
        if not isinstance(spec, str):
            why = "its record names no data"
            raise CheckpointError(str(trunk.path), why, "Give `trunk_data` as well")
        trunk_data = load_again(spec, side, trunk.record, show=show)
    check_apart(personal, trunk_data)
    if trunk is not None and isinstance(seen := trunk.record.get("trained_on"), dict):
        check_apart(personal, load_again(seen["spec"], side, {"data": seen}, show=show))
    if trunk is None:
        split = make_split(trunk_data, seed=seed, validation=0.1, test=0.1)
        task = kind.of_data(recipe, trunk_data, fitting(split, trunk_data, show=False))
        check(len(task.edges) - 1)
        place = out.with_name(f"{out.name}-trunk")
        how: Any = {"device": device, "restart": restart, "show": show}
        trunk = train_pictures(
            kind, trunk_data, split, recipe, place, seed=seed, label="trunk", **how
        )
    return trunk, trunk_data


def consented(
    model: PictureModel,
    trunk: Checkpoint,
    trunk_data: Dataset,
    unfinished: Unfinished,
    *,
    more: Sequence[str] = (),
    show: bool = False,
) -> Consented:
    """The trunk's own pictures as a design sees them, with the grid that they decide.

    Args:
        model: the predictor over it.
        trunk: the trunk.
        trunk_data: its data.
        unfinished: the passes that an earlier run made, and the device of others.
        more: ids that are read as well as those that it was trained on and validated with.
        show: progress bar.

    Raises:
        DataError: other data than the trunk's.
    """
    split = opened_again(split_of(trunk), trunk_data, trunk.path).there(trunk_data)
    ids = (*dict.fromkeys((*split.retain, *split.validation, *more)),)
    every = tensors_of(model, trunk_data, ids, unfinished.device)
    pooled_NC = unfinished.tensors(
        "features",
        lambda: {"pooled": pooled(model, every, show=show)},
        trunk=trunk_facts(trunk),
        data=trunk_data.digest,
        ids=ids,
    )["pooled"]
    mean_C, spread_C = moments(pooled_NC[: len(split.retain)])
    return Consented(
        every=_rows(model, trunk_data, every, pooled_NC, grid := grid_of(spread_C)),
        seen_ids=split.retain,
        held_ids=split.validation,
        mean_C=mean_C,
        spread_C=spread_C,
        grid=grid,
    )


def moments(pooled_NC: Tensor) -> tuple[Tensor, Tensor]:
    """Means and spreads (C,) of pooled features."""
    mean_C = pooled_NC.mean(0)
    # a feature that never varies would be divided by nothing
    return mean_C, pooled_NC.std(0).maximum(mean_C.abs() / MOST_MEANS) + 1e-3


def grid_of(spread_C: Tensor) -> float:
    """The grid of features with these spreads: a power of two, whose multiples are exact in float64
    and in float32.
    """
    return float(2.0 ** round(float(spread_C.median().log2())) / GRID)


def coarse(value: Tensor) -> Tensor:
    """Each row rounded to `LIFT_BITS` below its largest power of two: products with rounded
    features then add up without rounding.
    """
    # frexp: the exponent of the next power of two above
    exponent = torch.frexp(value.abs().amax(-1, keepdim=True)).exponent
    step = 2.0 ** (exponent.double() - LIFT_BITS)
    return (value / step).round() * step


def rows_of(
    model: PictureModel,
    grid: float,
    dataset: Dataset,
    ids: Sequence[str],
    device: torch.device,
    *,
    show: bool = False,
) -> TrunkRows:
    """What a design sees of some samples.

    Args:
        model: its trunk; what stands over it plays no part.
        grid: pooled features are rounded to multiples of this.
        dataset: a data set with ages, or of a classifier with labels.
        ids: ids of the data set.
        device: the device for the trunk's pass over the pictures.
        show: progress bar.

    Raises:
        DataError: a sample that is not there, or has no age or label that the model knows.
    """
    data = tensors_of(model, dataset, ids, device)
    return _rows(model, dataset, data, pooled(model, data, show=show), grid)


def tensors_of(
    model: PictureModel, dataset: Dataset, ids: Sequence[str], device: torch.device
) -> ImageSet:
    """Some samples with the ages or the classes of a model; `DataError` for one without."""
    if isinstance(model, Classifier):
        return to_class_tensors(dataset, ids, model.classes, device)
    assert isinstance(model, AgePredictor)
    return to_tensors(dataset, ids, model.age_edges, device)


def _rows(
    model: PictureModel, dataset: Dataset, data: ImageSet, pooled_NC: Tensor, grid: float
) -> TrunkRows:
    # whole numbers: what is committed to has no last bits to differ in
    steps_NC = (pooled_NC / grid).round()
    truth_N = truth_of(model, data)
    people = {sample.id: sample.person for sample in dataset.samples}
    committed = {
        name: hashlib.sha256(
            name.encode() + b"\0" + steps.astype("<i4").tobytes() + truth.tobytes()
        ).digest()
        for name, steps, truth in zip(
            data.ids, steps_NC.numpy(), truth_N[:, None].numpy(), strict=True
        )
    }
    return TrunkRows(
        ids=data.ids,
        people=tuple(people[name] for name in data.ids),
        pooled_NC=steps_NC * grid,
        truth_N=truth_N,
        committed=committed,
    )


def truth_of(model: PictureModel, data: ImageSet) -> Tensor:
    """Years, or the numbers of the classes (N,), in float64."""
    return (data.group_N if isinstance(model, Classifier) else data.age_N).cpu().double()


def group_targets(model: PictureModel, rows: TrunkRows) -> Tensor:
    """What a head learns of the groups (N, G), in float64: soft ages, or one-hot classes."""
    if isinstance(model, Classifier):
        return one_hot(rows.truth_N.long(), model.groups).double()
    assert isinstance(model, AgePredictor)
    return soft_groups(model.age_centers.cpu().double(), rows.truth_N)


@torch.no_grad()
def pooled(model: PictureModel, data: ImageSet, *, show: bool = False) -> Tensor:
    """Pooled features (N, C) in float64 on the CPU, `BATCH` pictures a pass; `show` draws a
    progress bar.
    """
    assert model.lift is not None
    rows = [torch.empty(0, model.lift.in_features, dtype=torch.float64)]
    with progress(total=len(data), label="features", show=show) as bar:
        for start in range(0, len(data), BATCH):
            # the last batch begins again at the first picture
            index_B = torch.arange(start, start + BATCH, device=data.device) % len(data)
            rows.append(model.pooled(data.batch(index_B).image_BCHW).double().cpu())
            bar.update(min(BATCH, len(data) - start))
    return torch.cat(rows)[: len(data)]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """How sums are split among threads decides their last bits, and a refit may run on a busier
    machine.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def trunk_sha256(model: PictureModel, own: Sequence[str]) -> str:
    """SHA-256 over all tensors but those that people decide, in the order of their names."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        if name not in own:
            digest.update(name.encode() + b"\0" + value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def trunk_facts(trunk: Checkpoint) -> dict[str, Any]:
    """What the record of a design says of its trunk."""
    record = trunk.record
    elsewhere = {name: record[name] for name in ("trained_on", "adopted") if name in record}
    return elsewhere | {"sha256": trunk.sha256, "data": record.get("data", {})}


def check_apart(personal: Dataset, consented: Dataset) -> None:
    """Refuses personal data with a picture or a person of the trunk's: what the trunk has seen is
    never forgotten.

    People are compared by name where both specs are of one kind (procedural faces: of one seed),
    since another source may use the same numbers for other people.

    Raises:
        DataError: says which picture or person.
    """
    fix = "Take them out of the trunk's data, or train the trunk again without them"
    # by pixels: the same picture may have another name
    theirs = {_digest(consented, position): name for position, name in enumerate(consented.ids)}
    mine = {name: _digest(personal, position) for position, name in enumerate(personal.ids)}
    if both := [name for name, digest in mine.items() if digest in theirs]:
        shown = ", ".join(f"{name} (there: {theirs[mine[name]]})" for name in both[:3])
        more = f" and {len(both) - 3} more" if len(both) > 3 else ""
        why = f"{len(both)} personal pictures are in it too: {shown}{more}"
        raise DataError("trunk's data", why, fix)
    if _namespace(personal.spec) == _namespace(consented.spec):
        ours, known = (
            {sample.subject for sample in data.samples if sample.subject}
            for data in (personal, consented)
        )
        if people := sorted(ours & known):
            why = f"{len(people)} of the people are in it too (first: {people[0]})"
            other = "; if they are others, give them other names in one of the two"
            raise DataError("trunk's data", why, f"{fix}{other}")


def _digest(dataset: Dataset, position: int) -> bytes:
    return hashlib.sha256(
        np.ascontiguousarray(dataset.images[dataset.rows[position]]).tobytes()
    ).digest()


def _namespace(spec: str) -> str:
    kind, _, rest = spec.partition(":")
    seed = [part for part in rest.split(",") if part.startswith("seed=")]
    return f"{kind} {seed[0] if seed else 'seed=0'}" if kind == "synth" else kind
