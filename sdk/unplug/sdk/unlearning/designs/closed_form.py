"""Closed form: a trunk that saw nobody's personal data, and a ridge head over it whose sums give people back exactly.

Shapes: N samples, C pooled channels, D random features, G age groups, K = D + 1 + G + 1 (features, one, targets, age).
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from tqdm import tqdm

from unplug.core import CheckpointError, DataError, InputError, sha256_file, versions
from unplug.plugins import SUMS, AgePredictor, Checkpoint, load_checkpoint, save_checkpoint
from unplug.sdk.data import Dataset, Split, keyed, keyed_names, load_dataset, make_split, opened_names
from unplug.sdk.tasks import soft_groups, train_age
from unplug.sdk.training import (
    RECORD_SCHEMA,
    ImageSet,
    Recipe,
    check_place,
    describe_device,
    model_card,
    predict,
    recipe_of,
    split_of,
    summarize,
    to_tensors,
)

from ..budget import Cost, RetrainCost, summary
from ..method import with_settings
from ..ridge import RidgeHead, best_scale

BATCH = 64
"""Pictures a pass, always: the last batch is filled up, since another batch size may round differently."""
GRID = 256
"""Pooled features are rounded to this fraction of their spread before the head is fitted, so that the last bits of a
convolution, which may differ between machines, matter less often. How often was not measured."""
LIFT_BITS = 18
"""Of the lift's weights. With some 15 bits of a rounded feature and 2^11 channels at most, float64 sums them exactly, in any
order: a picture then adds the same whatever passes through beside it."""
FEATURE_RANGE, AGE_RANGE = 6, 7
"""Powers of two: features up to 64, ages up to 128. They are fixed: a range that follows the data would tell of it."""


@dataclass(frozen=True, kw_only=True)
class ClosedForm:
    """theta = (A^T A + lam I')^-1 A^T Y over fixed features A of personal pictures; forgetting subtracts their part.

    The features are relu(L x + l) of the trunk's pooled features x, with L and l at random: nothing in them depends on
    personal data. A^T A and A^T Y are kept as sums of integers (see `RidgeHead`), so that subtracting undoes adding bit for
    bit, in any order: after any number of requests the sums are those of the people who are left. lam = `ridge` times the
    number of samples. Group scores are multiplied by one number that the trunk's own validation pictures decide.

    Args:
        random_features: D, 1 to 4,096.
        ridge: penalty per sample, above 0; the default was chosen on UTKFace (docs/closed-form.md).

    Raises:
        InputError: a value out of range.

    Reference:
        Zhuang et al., ACIL, 2022, theorem 1 (with the sign of the update turned); Cho and Saul, Kernel Methods for Deep
        Learning, 2009, section 2 (random rectified features).
    """

    random_features: int = 512
    ridge: float = 0.03

    def __post_init__(self) -> None:
        if not (1 <= self.random_features <= 4096 and 0.0 < self.ridge < float("inf")):
            what = f"closed form random_features={self.random_features} ridge={self.ridge}"
            raise InputError(what, "out of range", "Use 1 to 4096 features and a ridge above 0")

    def train(
        self, dataset: Dataset, split: Split, recipe: Recipe, out: Path, *, trunk: Checkpoint | None = None,
        trunk_data: Dataset | None = None, seed: int = 0, device: torch.device, restart: bool = False, show: bool = True,
    ) -> Checkpoint:  # fmt: skip
        """Fits a head on personal data over a trunk that never saw any, and saves both with the head's sums.

        Args:
            dataset: personal data with ages, at the trunk's size.
            split: its retain set is fitted on; validation and test are measured on.
            recipe: of the trunk, where one is trained here, into ``NAME-trunk`` beside `out`.
            out: checkpoint folder.
            trunk: an ordinary age predictor; None trains one on `trunk_data`.
            trunk_data: what the trunk was trained on, nobody of `dataset` in it; None loads what the trunk's record names.
            seed: of the random features, and of a trunk that is trained here.
            device: where the pictures pass through the trunk.
            restart: drop an unfinished training of the trunk instead of continuing it.
            show: progress bars.

        Raises:
            InputError: neither a trunk nor data for one.
            CheckpointError: the trunk is no ordinary age predictor, or has no record.
            DataError: somebody is in both sets of data, other data than the trunk's, a sample without an age.
        """
        check_place(out)
        if split.data_digest != dataset.digest:
            why = "the split was made from other data (digest differs)"
            raise DataError(f"data {dataset.spec}", why, "Make the split again")
        trunk, trunk_data = _trunk(trunk, trunk_data, dataset, recipe, out, seed, device, restart, show)
        start = time.perf_counter()
        model, facts = lifted(trunk, trunk_data, self, seed=seed, device=device)
        personal = to_tensors(dataset, split.retain, model.age_edges, device)
        sums = HeadSums.empty(self.random_features, model.groups)
        sums.add(contribution(model, facts["grid"], personal, pooled_NC=pooled(model, personal, show=show)))
        fill_head(model, sums, self.ridge, facts["scale"])
        cost = Cost(forward=len(personal), backward=0, wall_s=time.perf_counter() - start)
        parts = {"train": split.retain, "validation": split.validation, "test": split.test}
        record = {
            "schema": RECORD_SCHEMA,
            "role": "original",
            "data": dataset.facts,
            "split": keyed(split).to_dict(),
            "recipe": recipe_of(trunk).to_dict(),
            "seed": seed,
            "design": {"name": "closed-form", "settings": asdict(self), **facts},
            "cost": {"forward": cost.forward, "backward": 0, "wall_s": cost.wall_s, "device": describe_device(device)},
            "metrics": measured(model, dataset, parts, device),
            "versions": versions(),
        }
        save_checkpoint(model.cpu(), out, record=record, card=model_card(record), sums=sums.tensors(split))
        return load_checkpoint(out, expect="age")

    def forget(
        self, original: Checkpoint, dataset: Dataset, forget_ids: Sequence[str], out: Path, *, refit: bool = False,
        device: torch.device, show: bool = True,
    ) -> Checkpoint:  # fmt: skip
        """Takes people out of the head, exactly; requests may follow one another.

        The pictures of the forgotten are needed once more, those of the others are not. Where this machine's convolutions
        round otherwise than those of the training, the head is refitted from the pictures of the others, if all of them are
        there: exact as well, and the record says so.

        Args:
            original: from `train`, or from an earlier request.
            dataset: the data of the training, or what is left of it.
            forget_ids: samples that the head was fitted on.
            out: checkpoint folder.
            refit: fit from the others' pictures in any case: the oracle of audits.
            device: where the pictures pass through the trunk.
            show: progress bar.

        Raises:
            DataError: a sample that is not in the head, another picture under its name, or nobody would be left.
            CheckpointError: sums that were edited or belong to another trunk.
        """
        check_place(out)
        model, facts, carried = cast(AgePredictor, copy.deepcopy(original.model)), _facts(original), _carried(original)
        before = split_of(original, dataset)
        split = before.with_forget(sorted({*before.forget, *forget_ids}))
        sums = load_sums(original)
        sums.rename(opened_names(split_of(original), dataset))
        model = model.to(device)
        gone = to_tensors(dataset, sorted(set(forget_ids)), model.age_edges, device)
        start = time.perf_counter()
        why, forward = "refitted from the pictures of the others, as asked" if refit else None, len(gone)
        if not refit:
            try:
                sums.remove(contribution(model, facts["grid"], gone))
            except Changed as error:
                if not set(split.retain) <= set(dataset.ids):
                    raise
                why = f"refitted from the pictures of the others ({error.what}: {error.why})"
        if why:
            rest = to_tensors(dataset, split.retain, model.age_edges, device)
            forward += len(rest)
            added, sums = sums.committed, HeadSums.empty(self.random_features, model.groups)
            sums.add(contribution(model, facts["grid"], rest, pooled_NC=pooled(model, rest, show=show)))
            same = sum(added[name] == digest for name, digest in sums.committed.items())
            why += f"; {same} of their {len(rest)} pictures are bit for bit as they were added"
        fill_head(model, sums, self.ridge, facts["scale"])
        cost = Cost(forward=forward, backward=0, wall_s=time.perf_counter() - start)
        parts = {"retain": split.retain, "forget": split.forget, "test": split.test}
        stored = keyed(split)
        record = carried | {
            "role": "retrained" if refit else "unlearned",
            "split": stored.to_dict(),
            "forget": {
                "method": "retrain" if refit else "closed-form",
                "settings": asdict(self),
                "needs": ["retain data", "labels"] if why else ["forget data", "labels"],
                "exact": True,
                "refitted": why,
                "samples": len(gone),
                "set_sha256": stored.forget_sha256,
                "cost": summary(cost, _refit_cost(cost, len(split.retain), device), None),
            },
            "cost": {"forward": cost.forward, "backward": 0, "wall_s": cost.wall_s, "device": describe_device(device)},
            "metrics": measured(model, dataset, parts, device),
            "lineage": {"original": str(original.path), "original_sha256": original.sha256},
            "versions": versions(),
        }
        save_checkpoint(model.cpu(), out, record=record, card=model_card(record), sums=sums.tensors(split))
        return load_checkpoint(out, expect="age")


@dataclass(kw_only=True)
class HeadSums:
    """What a head is computed from: integer sums over its samples, and a commitment to each of them.

    Args:
        head: the sums.
        committed: per sample id the SHA-256 of what it added, so that nothing else can be subtracted in its name.
    """

    head: RidgeHead
    committed: dict[str, bytes]

    @classmethod
    def empty(cls, features: int, groups: int) -> HeadSums:
        """The sums over nobody, with ranges that do not depend on any data."""
        exponent_K = torch.tensor([FEATURE_RANGE] * features + [1] + [1] * groups + [AGE_RANGE])
        return cls(head=RidgeHead(features, 1.0, exponent_K, slices=1), committed={})

    def add(self, part: Contribution) -> None:
        """Adds samples that are not in yet."""
        self.head.add(part.feature_ND, part.target_NK)
        self.committed |= part.committed

    def remove(self, part: Contribution) -> None:
        """Subtracts samples exactly as they were added.

        Raises:
            DataError: one is not in the sums, was added as something else, or nobody would be left.
        """
        for name, digest in part.committed.items():
            if name not in self.committed:
                raise DataError(
                    f"sample {name}", "it is not in the sums of this head", "It was never there, or is forgotten already"
                )
            if self.committed[name] != digest:
                raise Changed(
                    f"sample {name}", "its picture, age or features are not those that were added",
                    "Give the picture of the training, on the machine that trained; with all pictures of the rest the head is"
                    " refitted instead",
                )  # fmt: skip
        if len(part.committed) >= len(self.committed):
            raise DataError("request", "nobody would be left in the head", "Delete the model instead")
        self.head.remove(part.feature_ND, part.target_NK, known=True)
        self.committed = {name: digest for name, digest in self.committed.items() if name not in part.committed}

    def solve(self, ridge: float) -> tuple[Tensor, Tensor]:
        """W (G + 1, D) and b (G + 1,) in float64."""
        self.head.lam = ridge * len(self.committed)
        return self.head.weights()

    def rename(self, names: Mapping[str, str]) -> None:
        """Other names for some samples: ids in the place of the digests that a record holds."""
        self.committed = {names.get(name, name): digest for name, digest in self.committed.items()}

    def tensors(self, split: Split) -> dict[str, Tensor]:
        """For `SUMS`: ``sums``, and ``committed`` in the order of the names in the stored form of the split, sorted."""
        stored = keyed_names(split)
        rows = [np.frombuffer(self.committed[name], np.uint8) for name in sorted(self.committed, key=stored.__getitem__)]
        return {"sums": self.head.sums, "committed": torch.from_numpy(np.stack(rows))}


class Changed(DataError):
    """A sample is not what was added to the sums under its name."""


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What N samples add: features (N, D), targets and age (N, G + 1), both float64, and the commitments."""

    feature_ND: Tensor
    target_NK: Tensor
    committed: dict[str, bytes]


def _refit_cost(cost: Cost, samples: int, device: torch.device) -> RetrainCost:
    per_sample = cost.wall_s / cost.forward
    return RetrainCost(
        cost=Cost(forward=samples, backward=0, wall_s=per_sample * samples),
        source=f"a refit on the others at {1e3 * per_sample:.3g} ms a picture, as in this step, on {describe_device(device)}",
    )


def _trunk(
    trunk: Checkpoint | None, trunk_data: Dataset | None, personal: Dataset, recipe: Recipe, out: Path, seed: int,
    device: torch.device, restart: bool, show: bool,
) -> tuple[Checkpoint, Dataset]:  # fmt: skip
    """The trunk and its data, which are loaded or trained where they are not given, and checked to be apart."""
    if trunk is None and trunk_data is None:
        raise InputError("closed form", "it needs a trunk that never saw personal data", "Give --trunk-data or --trunk")
    side = recipe.image_size if trunk is None else trunk.model.image_size
    if personal.size != side:
        why = f"its images have {personal.size} pixels where the trunk takes {side}"
        raise DataError(f"data {personal.spec}", why, "Load it at the trunk's size")
    if trunk_data is None:
        assert trunk is not None
        spec = (trunk.record.get("data") or {}).get("spec")
        if not isinstance(spec, str):
            raise CheckpointError(str(trunk.path), "its record names no data", "Give --trunk-data as well")
        trunk_data = load_dataset(spec, side, show=show)
    check_apart(personal, trunk_data)
    if trunk is None:
        split = make_split(trunk_data, seed=seed, validation=0.1, test=0.1)
        place = out.parent / f"{out.name}-trunk"
        trunk = train_age(trunk_data, split, recipe, place, seed=seed, device=device, restart=restart, show=show, label="trunk")
    return trunk, trunk_data


def load_sums(checkpoint: Checkpoint) -> HeadSums:
    """The sums of a closed-form checkpoint.

    Raises:
        CheckpointError: none there, edited, of another trunk, or not those of the head in the weights.
    """
    place, record = checkpoint.path / SUMS, checkpoint.record
    fix = "Restore the folder as it was saved"
    if not place.is_file():
        raise CheckpointError(str(place), "the sums that the head is computed from are not there", fix)
    if sha256_file(place) != record.get("sums_sha256"):
        raise CheckpointError(str(place), "they are not the sums of this checkpoint (hash differs)", fix)
    model, facts, split = checkpoint.model, _facts(checkpoint), split_of(checkpoint)
    if trunk_sha256(model) != facts["trunk_sha256"]:
        raise CheckpointError(str(checkpoint.path), "its trunk is not the one that the head's features come from", fix)
    settings, ids = with_settings(ClosedForm(), facts["settings"], "closed form"), sorted(split.retain)
    sums = HeadSums.empty(settings.random_features, model.groups)
    try:
        stored = load_file(place)
        sums.head.sums = stored["sums"]
        sums.committed = {name: bytes(row.numpy()) for name, row in zip(ids, stored["committed"], strict=True)}
    except (SafetensorError, KeyError, ValueError, InputError) as error:
        raise CheckpointError(str(place), f"they do not belong to this head ({error})", fix) from error
    if sums.head.samples != len(ids):
        raise CheckpointError(str(place), f"they hold {sums.head.samples} samples where the split says {len(ids)}", fix)
    expected = copy.deepcopy(model)
    fill_head(expected, sums, settings.ridge, facts["scale"])
    if not torch.allclose(expected.classifier.weight, model.classifier.weight, rtol=1e-4, atol=1e-4):
        raise CheckpointError(str(place), "the head in the weights is not the one that they give", fix)
    return sums


def _facts(checkpoint: Checkpoint) -> dict[str, Any]:
    """What the record says of the design; `CheckpointError` where something is missing or of another type."""
    facts = checkpoint.record["design"]
    kinds = {"settings": dict, "grid": float, "scale": float, "trunk_sha256": str}
    wrong = [name for name, kind in kinds.items() if not isinstance(facts.get(name), kind)]
    if wrong or not facts["grid"] > 0.0:
        why = f"its unplug.json does not describe a closed form ({', '.join(wrong) or 'grid'})"
        raise CheckpointError(str(checkpoint.path), why, "Restore the folder as it was saved")
    return dict(facts)


def _carried(original: Checkpoint) -> dict[str, Any]:
    """What the record of a forget step takes over from the training's; `CheckpointError` where that lacks something."""
    record = original.record
    missing = [name for name in ("spec", "digest", "samples") if name not in record.get("data", {})]
    if missing or "seed" not in record:
        why = f"its unplug.json says no {', '.join([f'data.{name}' for name in missing] or ['seed'])}"
        raise CheckpointError(str(original.path), why, "Restore the folder as it was saved")
    return {
        "schema": RECORD_SCHEMA, "data": record["data"], "recipe": recipe_of(original).to_dict(), "seed": record["seed"],
        "design": record["design"],
    }  # fmt: skip


def lifted(
    trunk: Checkpoint, trunk_data: Dataset, settings: ClosedForm, *, seed: int, device: torch.device
) -> tuple[AgePredictor, dict[str, Any]]:
    """The network with its random features and no head yet, and the facts that forgetting needs: of the trunk's data alone.

    The lift is L = R diag(1 / s) / sqrt(C), l = r - L m with R, r normal, m and s the mean and the spread of the pooled
    features over the trunk's training pictures. Facts: the rounding ``grid``, the ``scale`` of group scores, and digests.
    """
    own = trunk.model
    if trunk.model_type != "age" or own.lift is not None:
        raise CheckpointError(str(trunk.path), "a trunk is an ordinary age predictor, and this is none", "Give another")
    split = split_of(trunk)
    if split.data_digest != trunk_data.digest:
        raise DataError(f"data {trunk_data.spec}", "it is not what the trunk was trained on (digest differs)", "Give that data")
    model = AgePredictor(
        size=own.size, image_size=own.image_size, age_edges=own.age_edges, age_centers=own.age_centers.tolist(),
        random_features=settings.random_features,
    ).eval()  # fmt: skip
    model.load_state_dict(own.state_dict() | {name: value for name, value in model.state_dict().items() if name in _HEAD})
    model = model.to(device)
    seen, held = (to_tensors(trunk_data, part, model.age_edges, device) for part in (split.retain, split.validation))
    pooled_NC = pooled(model, seen)
    mean_C, spread_C = pooled_NC.mean(0), pooled_NC.std(0) + 1e-3
    generator = torch.Generator().manual_seed(seed)
    random_DC = torch.randn(settings.random_features, len(mean_C), generator=generator, dtype=torch.float64)
    offset_D = torch.randn(settings.random_features, generator=generator, dtype=torch.float64)
    weight_DC = _coarse(random_DC / spread_C / len(mean_C) ** 0.5)
    assert model.lift is not None
    with torch.no_grad():
        model.lift.weight.copy_(weight_DC)
        model.lift.bias.copy_(_coarse(offset_D - weight_DC @ mean_C))
    grid = 2.0 ** round(float(spread_C.median().log2())) / GRID
    return model, {
        "grid": grid,
        "scale": _scale(model, grid, seen, pooled_NC, held, settings.ridge),
        "trunk_sha256": trunk_sha256(model),
        "trunk": {"sha256": trunk.sha256, "data": trunk.record.get("data", {})},
    }


def _coarse(value: Tensor) -> Tensor:
    """Rounded to `LIFT_BITS` below its largest power of two: products with rounded features then add up without rounding."""
    step = 2.0 ** (int(torch.frexp(value.abs().max()).exponent) - LIFT_BITS)
    return (value / step).round() * step


_HEAD = ("lift.weight", "lift.bias", "classifier.weight", "classifier.bias")


def _scale(model: AgePredictor, grid: float, seen: ImageSet, pooled_NC: Tensor, held: ImageSet, ridge: float) -> float:
    """The factor of the group scores that fits the trunk's own validation pictures best, by cross entropy; 1 at least."""
    sums = HeadSums.empty(model.lift.out_features, model.groups)  # type: ignore[union-attr]
    sums.add(contribution(model, grid, seen, pooled_NC=pooled_NC))
    weight_KD, bias_K = sums.solve(ridge)
    other = contribution(model, grid, held)
    score_NG = (other.feature_ND @ weight_KD.T + bias_K)[:, : model.groups]
    return max(1.0, best_scale(score_NG, other.target_NK[:, : model.groups]))


@torch.no_grad()
def pooled(model: AgePredictor, data: ImageSet, *, show: bool = False) -> Tensor:
    """Pooled features (N, C) in float64 on the CPU, `BATCH` pictures a pass; `show` draws a progress bar."""
    rows = []
    for start in tqdm(range(0, len(data), BATCH), "features", disable=not show, unit="batch", leave=False):
        index_B = torch.arange(start, start + BATCH, device=data.device) % len(data)
        rows.append(model.pooled(data.batch(index_B).image_BCHW).double().cpu())
    return torch.cat(rows)[: len(data)]


@torch.no_grad()
def contribution(model: AgePredictor, grid: float, data: ImageSet, *, pooled_NC: Tensor | None = None) -> Contribution:
    """What some samples add to the sums.

    Args:
        model: with its lift; its head plays no part.
        grid: pooled features are rounded to multiples of this.
        data: with ages.
        pooled_NC: their pooled features, where they are known already.
    """
    assert model.lift is not None
    steps_NC = ((pooled(model, data) if pooled_NC is None else pooled_NC) / grid).round()
    lift = model.lift.weight.double().cpu(), model.lift.bias.double().cpu()
    feature_ND = (steps_NC * grid @ lift[0].T + lift[1]).relu().clamp(max=2.0**FEATURE_RANGE)
    age_N = data.age_N.cpu().double()
    age_N1 = age_N[:, None].clamp(0.0, 2.0**AGE_RANGE)
    target_NK = torch.cat([soft_groups(model.age_centers.cpu().double(), age_N), age_N1], dim=1)
    committed = {
        name: hashlib.sha256(name.encode() + b"\0" + steps.astype("<i4").tobytes() + age.tobytes()).digest()
        for name, steps, age in zip(data.ids, steps_NC.numpy(), age_N1.numpy(), strict=True)
    }
    return Contribution(feature_ND=feature_ND, target_NK=target_NK, committed=committed)


@torch.no_grad()
def fill_head(model: AgePredictor, sums: HeadSums, ridge: float, scale: float) -> None:
    """Writes the head that the sums give into the network: groups scaled to logits, then the age in years."""
    weight_KD, bias_K = sums.solve(ridge)
    factor_K = torch.cat([torch.full((model.groups,), scale, dtype=torch.float64), torch.ones(1, dtype=torch.float64)])
    model.classifier.weight.copy_(factor_K[:, None] * weight_KD)
    model.classifier.bias.copy_(factor_K * bias_K)


def trunk_sha256(model: AgePredictor) -> str:
    """SHA-256 over all tensors but the head's, in the order of their names."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        if not name.startswith("classifier."):
            digest.update(name.encode() + b"\0" + value.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def check_apart(personal: Dataset, consented: Dataset) -> None:
    """Refuses personal data with a picture or a person of the trunk's: what the trunk has seen is never forgotten.

    People are compared by name where both specs are of one kind (procedural faces: of one seed), since another source may
    use the same numbers for other people.

    Raises:
        DataError: says which picture or person.
    """
    fix = "Take them out of the trunk's data, or train the trunk again without them"
    theirs = {_digest(consented, position): name for position, name in enumerate(consented.ids)}
    mine = {name: _digest(personal, position) for position, name in enumerate(personal.ids)}
    both = [name for name, digest in mine.items() if digest in theirs]
    if both:
        shown = ", ".join(f"{name} (there: {theirs[mine[name]]})" for name in both[:3])
        more = f" and {len(both) - 3} more" if len(both) > 3 else ""
        raise DataError("trunk's data", f"{len(both)} personal pictures are in it too: {shown}{more}", fix)
    if _namespace(personal.spec) == _namespace(consented.spec):
        known = {sample.subject for sample in consented.samples if sample.subject}
        people = sorted({sample.subject for sample in personal.samples if sample.subject} & known)
        if people:
            raise DataError("trunk's data", f"{len(people)} of the people are in it too (first: {people[0]})", fix)


def _digest(dataset: Dataset, position: int) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(dataset.images[dataset.rows[position]]).tobytes()).digest()


def _namespace(spec: str) -> str:
    kind, _, rest = spec.partition(":")
    seed = [part for part in rest.split(",") if part.startswith("seed=")]
    return f"{kind} {seed[0] if seed else 'seed=0'}" if kind == "synth" else kind


def measured(
    model: AgePredictor, dataset: Dataset, parts: Mapping[str, Sequence[str]], device: torch.device
) -> dict[str, dict[str, Any]]:
    """Metrics of the sets whose pictures are all there; a set that is not whole has none."""
    there, rows = set(dataset.ids), {}
    for name, ids in parts.items():
        if ids and there.issuperset(ids):
            data = to_tensors(dataset, ids, model.age_edges, device)
            rows[name] = summarize(predict(model.to(device), data), model.age_edges)
    return rows
