"""What designs over a frozen trunk share: the order of training and forgetting, and what they keep
of people.

Shapes: N samples, C pooled channels.
"""

from __future__ import annotations

import copy
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from unplug.core import CheckpointError, DataError, InputError, one_writer, sha256_file, versions
from unplug.plugins import (
    DESIGN_STATE,
    AgePredictor,
    Checkpoint,
    Classifier,
    PictureModel,
    load_checkpoint,
    save_checkpoint,
)
from unplug.sdk.drawing.inference import GRIDS
from unplug.sdk.forgetting.tasks import AgeTask, GroupTask
from unplug.sdk.learning.data import (
    Dataset,
    Split,
    fitting,
    keyed,
    keyed_names,
    opened_again,
    opened_names,
    split_for,
)
from unplug.sdk.learning.training import (
    RECORD_SCHEMA,
    Recipe,
    check_place,
    describe_device,
    model_card,
    predict,
    recipe_of,
    split_of,
    summarize,
    training_dir,
)

from ..budget import Cost, RetrainCost, summary
from ..lineage import lineage_of
from .family import Kin, best_reference, check_members, check_trunks, join, kin_of, members_of
from .trunk import (
    Consented,
    TrunkRows,
    consented,
    ready_trunk,
    rows_of,
    tensors_of,
    threads,
    trunk_facts,
    trunk_sha256,
)
from .unfinished import AGAIN, Unfinished

RESTORE = "Restore the folder as it was saved"


class Kept(ABC):
    """What a design keeps of people besides the weights, in order to take them out again."""

    committed: dict[str, bytes]
    """By name of everybody who is in: the SHA-256 of what was read of the sample, so that nothing
    else goes in its name.
    """

    def rename(self, names: Mapping[str, str]) -> None:
        """Other names for some samples: ids in the place of the digests that a record holds."""
        self.committed = {names.get(name, name): digest for name, digest in self.committed.items()}

    def tensors(self, stored: Mapping[str, str]) -> dict[str, Tensor]:
        """The tensors of `DESIGN_STATE`: ``committed`` in the order of the stored names, which are
        not in it, and the design's own.
        """
        # rows in the order of the stored names: a reader pairs them again without names here
        names = sorted(self.committed, key=stored.__getitem__)
        rows = np.stack([np.frombuffer(self.committed[name], np.uint8) for name in names])
        return {"committed": torch.from_numpy(rows), **self.own_tensors(names)}

    @abstractmethod
    def own_tensors(self, names: Sequence[str]) -> dict[str, Tensor]:
        """What the design keeps, of samples in this order."""


class Changed(DataError):
    """A sample is not what it was when it was added."""


K = TypeVar("K", bound=Kept)


@dataclass(frozen=True, kw_only=True)
class OverTrunk(ABC, Generic[K]):
    """A design whose trunk never saw personal data: people decide what stands over its pooled
    features, and nothing else.

    A design says what that is (`begin`, `fit`, `fill`), how people leave it (`reads`, `take`) and
    what that costs (`work`).
    """

    name: ClassVar[str]
    """In `DESIGNS`."""
    needs: ClassVar[tuple[str, ...]]
    """What a request needs of the data."""
    fact_types: ClassVar[Mapping[str, type]]
    """What else a record says of the design besides what this class writes."""
    own: ClassVar[tuple[str, ...]]
    """Tensors of the network that people decide; the others are the trunk's."""
    how: ClassVar[str]
    """How people left, for the command line."""

    @property
    @abstractmethod
    def width(self) -> int:
        """D, the features between the trunk and the answers."""

    @abstractmethod
    def begin(
        self, model: PictureModel, consented: Consented, seed: int
    ) -> tuple[dict[str, Any], K]:
        """What does not depend on personal data: facts for the record, and a state with nobody in
        it.
        """

    @abstractmethod
    def fit(self, model: PictureModel, kept: K, rows: TrunkRows, seed: int) -> K:
        """The state of these people alone, from scratch."""

    @abstractmethod
    def reads(self, kept: K, gone: Sequence[str]) -> list[str]:
        """The samples whose pictures are needed to take some out."""

    @abstractmethod
    def take(
        self, model: PictureModel, kept: K, gone: Sequence[str], rows: TrunkRows, seed: int
    ) -> K:
        """The state without some samples; `rows` are what `reads` named."""

    @abstractmethod
    def fill(self, model: PictureModel, kept: K, facts: Mapping[str, Any]) -> None:
        """Writes what the state gives into the network."""

    @abstractmethod
    def restored(
        self,
        model: PictureModel,
        tensors: Mapping[str, Tensor],
        committed: dict[str, bytes],
    ) -> K:
        """The inverse of `Kept.own_tensors`; `ValueError`, `KeyError` or `InputError` where
        something does not fit.
        """

    def check_answers(self, answers: int) -> None:
        """Refuses a trunk with so many numbers in its own answer, with `InputError`, before it is
        trained or reads a picture.
        """

    def work(self, kept: K, gone: Sequence[str]) -> tuple[int, int]:
        """Training passes beyond the trunk: of taking some samples out, and of a refit on the
        others.
        """
        return 0, 0

    @one_writer
    def train(
        self,
        dataset: Dataset,
        split: Split,
        recipe: Recipe,
        out: Path,
        *,
        kind: type[GroupTask] = AgeTask,
        trunk: Checkpoint | None = None,
        trunk_data: Dataset | None = None,
        family: Sequence[Checkpoint] = (),
        seed: int = 0,
        device: torch.device,
        restart: bool = False,
        show: bool = True,
    ) -> Checkpoint:
        """Fits personal data over a trunk that never saw any, and saves both with what forgetting
        needs.

        Args:
            dataset: personal data with ages or labels, at the trunk's size.
            split: its retain set is fitted on; validation and test are measured on.
            recipe: the recipe of the trunk, if one is trained here, into ``NAME-trunk`` next to
                `out`.
            out: checkpoint folder.
            kind: the task that the model is for.
            trunk: an ordinary model of the task, or one of `adopt_trunk`; None trains one on
                `trunk_data`.
            trunk_data: the data that the trunk was trained on, with nobody of `dataset`; None loads
                the data that the trunk's record names.
            family: trunks of one set of data, in the place of `trunk`: one is taken, and the
                others become members that share its head.
            seed: the seed of everything random, and of a trunk that is trained here.
            device: the device for the trunk's pass over the pictures.
            restart: drop an unfinished training instead of continuing it.
            show: progress bars.

        Raises:
            InputError: neither a trunk nor data for one; see `check_answers` as well.
            CheckpointError: the trunk is neither, or has no record.
            DataError: somebody is in both sets of data, other data than the trunk's, a sample
                without an age, or with a label that the trunk never had.

        See `unplug.sdk.forgetting.unlearning.designs.family` for what a family refuses.
        """
        work = training_dir(out)
        if restart:
            shutil.rmtree(work, ignore_errors=True)
        check_place(out)
        check_trunks(family)
        split = fitting(split, dataset, show=show)
        how: dict[str, Any] = {"device": device, "show": show}
        trunks = []
        for given in family or (trunk,):
            ready, trunk_data = ready_trunk(
                given,
                trunk_data,
                dataset,
                recipe,
                out,
                kind=kind,
                check=self.check_answers,
                seed=seed,
                restart=restart,
                **how,
            )
            trunks.append(ready)
        assert trunk_data is not None
        start, unfinished = time.perf_counter(), Unfinished(folder=work, device=device)
        trunk, model, facts, empty, members = self._grown(
            kind, trunks, trunk_data, unfinished, seed, show
        )
        design = {"name": self.name, "settings": asdict(self), **facts}
        known = {"design": design, "trunk_split": split_of(trunk).sha256, "seed": seed}
        kept = self._fitted(model, empty, known, dataset, split, unfinished, show)
        self.fill(model, kept, facts)
        passes = self.work(kept, ())[1]
        wall_s = time.perf_counter() - start + unfinished.seconds
        cost = Cost(forward=len(split.retain) + passes, backward=passes, wall_s=wall_s)
        parts = {"train": split.retain, "validation": split.validation, "test": split.test}
        record = {
            "schema": RECORD_SCHEMA,
            "role": "original",
            "data": dataset.facts,
            **({"labels": list(dataset.classes)} if isinstance(model, Classifier) else {}),
            "split": keyed(split).to_dict(),
            "recipe": _recipe(kind, trunk).to_dict(),
            "seed": seed,
            "design": design,
            "cost": cost.record(device),
            "metrics": measured(model, dataset, parts, device),
            "versions": versions(),
        }
        saved = self._saved(model, kept, split, out, record, members, dataset, device)
        shutil.rmtree(work, ignore_errors=True)
        return saved

    def _fitted(
        self,
        model: PictureModel,
        empty: K,
        known: Mapping[str, Any],
        dataset: Dataset,
        split: Split,
        unfinished: Unfinished,
        show: bool,
    ) -> K:
        """The state of the retain set, by what is `known` of the trunk, or what an earlier run made
        of both.
        """
        stored, grid = keyed_names(split), known["design"]["grid"]

        def made() -> dict[str, Tensor]:
            rows = rows_of(model, grid, dataset, split.retain, unfinished.device, show=show)
            return self.fit(model, empty, rows, known["seed"]).tensors(stored)

        facts = {"data": dataset.digest, "split": keyed(split).sha256}
        tensors = unfinished.tensors("kept", made, **known, **facts)
        names = sorted(split.retain, key=stored.__getitem__)
        return self._restored(model, tensors, names, unfinished.folder, AGAIN)

    def _grown(
        self,
        kind: type[GroupTask],
        trunks: Sequence[Checkpoint],
        trunk_data: Dataset,
        unfinished: Unfinished,
        seed: int,
        show: bool,
    ) -> tuple[Checkpoint, PictureModel, dict[str, Any], K, dict[str, PictureModel]]:
        """The reference among some trunks, `_begun` over it, and the members that the others
        become: of the trunks' data alone.
        """
        device = unfinished.device
        over = [_over(kind, item, trunk_data, self.width).to(device) for item in trunks]
        for model in over:
            self.check_answers(model.answer_channels)
        if len(trunks) == 1:
            known = consented(over[0], trunks[0], trunk_data, unfinished, show=show)
            return trunks[0], over[0], *self._begun(over[0], trunks[0], known, seed), {}
        family = kin_of(trunks, over, trunk_data, unfinished, show=show)
        with threads(1):
            begun = {item.name: self._tried(item, seed) for item in family}
            first, links = best_reference(family)
            others = [item for item in family if item is not first]
            for item in others:
                join(first, item, links[item.name])
        said = {
            item.name: {
                "explained": links[item.name].explained,
                "grid": item.known.grid,
                "trunk_sha256": trunk_sha256(item.model, self.own),
                "trunk": trunk_facts(item.trunk),
                "recipe": recipe_of(item.trunk).to_dict(),
            }
            for item in others
        }
        facts, kept = begun[first.name]
        errors = {name: link.error for name, link in links.items()}
        facts |= {"reference": first.name, "members": said, "errors": errors}
        members = {item.name: item.model for item in others}
        return first.trunk, first.model, facts, kept, members

    def _tried(self, kin: Kin, seed: int) -> tuple[dict[str, Any], K]:
        """`_begun` over a trunk, whose model holds the head of its own pictures then."""
        facts, kept = self._begun(kin.model, kin.trunk, kin.known, seed)
        self.fill(kin.model, self.fit(kin.model, kept, kin.known.seen, seed), facts)
        return facts, kept

    def forget(
        self,
        original: Checkpoint,
        dataset: Dataset,
        forget_ids: Sequence[str],
        out: Path,
        *,
        refit: bool = False,
        device: torch.device,
        show: bool = True,
    ) -> Checkpoint:
        """Takes people out, exactly; requests may follow one another.

        Where this machine's convolutions round otherwise than those of the training, everything is
        refitted from the pictures of the others, if all of them are there: exact as well, and the
        record says so.

        Args:
            original: the model from `train`, or from an earlier request.
            dataset: the data of the training, or what is left of it.
            forget_ids: samples that it was fitted on, and of the same people such as were held out.
            out: checkpoint folder.
            refit: fit from the others' pictures in any case: the oracle of audits.
            device: the device for the trunk's pass over the pictures.
            show: progress bar.

        Raises:
            DataError: a sample that is not in the model, another picture under a name, a picture
                that is needed and gone, or nobody would be left.
            CheckpointError: a state that was edited or belongs to another trunk.
        """
        check_place(out)
        model = cast(PictureModel, copy.deepcopy(original.model))
        facts, carried = self._facts(original), _carried(original)
        before = split_of(original, dataset)
        split, gone = split_for(before, dataset, forget_ids), leaving(before, forget_ids)
        kept, seed = self._opened(original, dataset), int(original.record["seed"])
        members = {name: item.model for name, item in members_of(original).items()}
        check_request(kept, gone)
        step, whole = self._cost(kept, gone), self._cost(kept, gone, refit=True)
        model, start = model.to(device), time.perf_counter()

        def read(ids: Sequence[str]) -> TrunkRows:
            return rows_of(model, facts["grid"], dataset, ids, device, show=show)

        spent = Cost(forward=0, backward=0, wall_s=0.0)
        why = "refitted from the pictures of the others, as asked" if refit else None
        if not refit:
            try:
                # what is gone or changed is met here, before anything is taken out
                check_there(dataset, needed := self.reads(kept, gone))
                rows = read(needed)
                spent = Cost(forward=len(needed), backward=0, wall_s=0.0)
                check_added(kept, rows)
                kept, spent = self.take(model, kept, gone, rows, seed), step
            except Changed as error:
                # a refit needs everybody else's picture
                if not set(split.retain) <= set(dataset.ids):
                    raise
                why = f"refitted from the pictures of the others ({error.what}: {error.why})"
        if why:
            added, kept = kept.committed, self.fit(model, kept, read(split.retain), seed)
            # what was read in vain was spent as well
            spent = replace(whole, forward=spent.forward + whole.forward)
            same = sum(added[name] == digest for name, digest in kept.committed.items())
            count = len(kept.committed)
            why += f"; {same} of their {count} pictures are bit for bit as they were added"
        self.fill(model, kept, facts)
        cost = replace(spent, wall_s=time.perf_counter() - start)
        parts = {"retain": split.retain, "forget": split.forget, "test": split.test}
        stored = keyed(split)
        record = carried | {
            "role": "retrained" if refit else "unlearned",
            "split": stored.to_dict(),
            "forget": {
                "method": "retrain" if refit else self.name,
                "settings": asdict(self),
                "needs": ["retain data", "labels"] if why else list(self.needs),
                "exact": True,
                "how": why or self.how,
                "refitted": why,
                "samples": len(gone),
                "held_out": len(before.held_out - split.held_out),
                "set_sha256": stored.forget_sha256,
                "cost": summary(cost, _refit_cost(cost, whole, device), None),
            },
            "cost": cost.record(device),
            "metrics": measured(model, dataset, parts, device),
            "lineage": lineage_of(original, stored),
            "versions": versions(),
        }
        return self._saved(model, kept, split, out, record, members, dataset, device)

    def _saved(
        self,
        model: PictureModel,
        kept: K,
        split: Split,
        out: Path,
        record: dict[str, Any],
        members: Mapping[str, PictureModel],
        dataset: Dataset,
        device: torch.device,
    ) -> Checkpoint:
        """The model with its state, and the members of its family with the same head."""
        below, design = {}, record["design"]
        for name, member in members.items():
            self.fill(member, kept, design)
            own = {key: value for key, value in design.items() if key not in ("members", "errors")}
            own |= design["members"][name] | {"member": name}
            metrics = measured(member, dataset, {"test": split.test}, device)
            recipe = own.pop("recipe", record["recipe"])
            theirs = record | {"design": own, "metrics": metrics, "recipe": recipe}
            below[name] = member.cpu(), theirs, model_card(theirs, member.called)
        card, state = model_card(record, model.called), kept.tensors(keyed_names(split))
        save_checkpoint(model.cpu(), out, record=record, card=card, state=state, members=below)
        return load_checkpoint(out, expect=model.model_type)

    def load(self, checkpoint: Checkpoint) -> K:
        """The state of a checkpoint of this design.

        Raises:
            CheckpointError: none there, edited, of another trunk, or not that of the weights.
        """
        place, record, model = checkpoint.path / DESIGN_STATE, checkpoint.record, checkpoint.model

        def check(holds: bool, why: str, where: Path = place) -> None:
            if not holds:
                raise CheckpointError(str(where), why, RESTORE)

        if "member" in record["design"]:
            why, fix = "it is a member: its family forgets as a whole", "Give the family's folder"
            raise CheckpointError(str(checkpoint.path), why, fix)
        check(place.is_file(), "what the model is computed from is not there")
        same = sha256_file(place) == record.get("state_sha256")
        check(same, "it is not the state of this checkpoint (hash differs)")
        facts, names = self._facts(checkpoint), sorted(split_of(checkpoint).retain)
        same = trunk_sha256(model, self.own) == facts["trunk_sha256"]
        check(same, "its trunk is not the one that the features come from", checkpoint.path)
        try:
            tensors = load_file(place)
        except SafetensorError as error:
            raise CheckpointError(str(place), f"it cannot be read ({error})", RESTORE) from error
        kept = self._restored(model, tensors, names, place, RESTORE)
        # the state must give the very weights next to it, or one of the two was exchanged
        filled = copy.deepcopy(model)
        self.fill(filled, kept, facts)
        expected, weights = filled.state_dict(), model.state_dict()
        for name in self.own:
            same = torch.allclose(expected[name], weights[name], rtol=1e-4, atol=1e-4)
            check(same, f"{name} of the weights is not what it gives")
        check_members(checkpoint, self.own)
        return kept

    def _restored(
        self,
        model: PictureModel,
        tensors: Mapping[str, Tensor],
        names: Sequence[str],
        place: Path,
        fix: str,
    ) -> K:
        """The inverse of `Kept.tensors`; `CheckpointError` where something does not fit."""
        try:
            rows = zip(names, tensors["committed"], strict=True)
            committed = {name: bytes(row.numpy()) for name, row in rows}
            return self.restored(model, tensors, committed)
        except (KeyError, ValueError, InputError) as error:
            why = f"it does not belong to this model ({error})"
            raise CheckpointError(str(place), why, fix) from error

    def price(self, original: Checkpoint, dataset: Dataset, forget_ids: Sequence[str]) -> float:
        """What taking some samples out costs, as a fraction of a refit on the others; nothing is
        computed for it.

        Raises:
            DataError: a sample that is not in the model, or nobody would be left.
            CheckpointError: see `load`.
        """
        split_for(before := split_of(original, dataset), dataset, forget_ids)
        kept, gone = self._opened(original, dataset), leaving(before, forget_ids)
        check_request(kept, gone)
        return self._cost(kept, gone).compute / self._cost(kept, gone, refit=True).compute

    def _opened(self, original: Checkpoint, dataset: Dataset) -> K:
        """The state with the ids of the data in the place of digests."""
        kept = self.load(original)
        kept.rename(opened_names(split_of(original), dataset))
        return kept

    def _cost(self, kept: K, gone: Sequence[str], *, refit: bool = False) -> Cost:
        pictures = len(kept.committed) - len(gone) if refit else len(self.reads(kept, gone))
        passes = self.work(kept, gone)[int(refit)]
        return Cost(forward=pictures + passes, backward=passes, wall_s=0.0)

    def _begun(
        self, model: PictureModel, trunk: Checkpoint, known: Consented, seed: int
    ) -> tuple[dict[str, Any], K]:
        """The facts that forgetting needs, and the state with nobody in it: of the trunk's data
        alone.
        """
        facts, kept = self.begin(model, known, seed)
        told = {
            "grid": known.grid,
            "trunk_sha256": trunk_sha256(model, self.own),
            "trunk": trunk_facts(trunk),
        }
        return told | facts, kept

    def _facts(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """What the record says of the design; `CheckpointError` where something is missing or of
        another type.
        """
        facts = checkpoint.record["design"]
        kinds = {"settings": dict, "grid": float, "trunk_sha256": str, **self.fact_types}
        wrong = [name for name, kind in kinds.items() if not isinstance(facts.get(name), kind)]
        if wrong or not GRIDS[0] <= facts["grid"] <= GRIDS[1]:
            what = ", ".join(wrong) or "grid"
            why = f"its unplug.json does not describe the design {self.name} ({what})"
            raise CheckpointError(str(checkpoint.path), why, RESTORE)
        return dict(facts)


def _over(
    kind: type[GroupTask], trunk: Checkpoint, trunk_data: Dataset, width: int
) -> PictureModel:
    """A predictor with `width` features over a trunk's weights; `CheckpointError` of other models."""
    given = trunk.model
    made: dict[str, Any] = {"size": given.size, "image_size": given.image_size}
    task, split = None, None
    if trunk.model_type == kind.model_type and given.lift is None and given.network is None:
        made |= {**given.answers(), "own_answer": True}
    elif trunk.model_type == "age-trunk" and given.adopted is not None:
        split = opened_again(split_of(trunk), trunk_data, trunk.path).there(trunk_data)
        task = kind.of_data(_recipe(kind, trunk), trunk_data, split)
        made |= {"network": given.adopted.to_dict(), **task.answers}
    else:
        fix = (
            f"Give {kind.called} of our sizes that was trained without a design, or what `unplug "
            "adopt --trunk` made"
        )
        raise CheckpointError(str(trunk.path), "it cannot be a trunk", fix)
    model_of: Any = Classifier if kind.model_type == Classifier.model_type else AgePredictor
    model: PictureModel = model_of(**made, random_features=width).eval()
    if task is not None and split is not None:
        task.refresh(model, task.sets(trunk_data, split, torch.device("cpu")).train)
    weights = model.state_dict()
    own = ("lift.", "classifier.", "age_centers")
    over = {name: weights[name] for name in weights if name.startswith(own)}
    theirs = {name: value for name, value in given.state_dict().items() if name in weights}
    if model.own is not None:
        theirs |= {f"own.{name}": value for name, value in given.classifier.state_dict().items()}
    model.load_state_dict({**theirs, **over})
    return model


def _recipe(kind: type[GroupTask], trunk: Checkpoint) -> Recipe:
    """The trunk's, as the task has it: an adopted one serves ages and labels."""
    return replace(recipe_of(trunk), **kind.defaults)


def leaving(before: Split, ids: Sequence[str]) -> list[str]:
    """The people of a request that the model still holds; where that is nobody, all whom it held,
    which `check_request` refuses.
    """
    # who was held out has nothing to take out
    asked = {*ids} & {*before.train}
    return sorted(asked - {*before.forget} or asked)


def check_request(kept: Kept, gone: Sequence[str]) -> None:
    """Refuses samples that are not in, and a request after which nobody is left."""
    if strangers := [name for name in gone if name not in kept.committed]:
        fix = (
            "It was never there, or is forgotten already: then the release that forgot it answers "
            "such a request (`unplug ledger record release ID --file BUNDLE/manifest.json`)"
        )
        raise DataError(f"sample {strangers[0]}", "it is not in this model (any more)", fix)
    if len(gone) >= len(kept.committed):
        raise DataError("request", "nobody would be left in the model", "Delete the model instead")


def check_there(dataset: Dataset, needed: Sequence[str]) -> None:
    """Refuses data without a picture that is needed; `Changed`, since a refit may do without it."""
    there = set(dataset.ids)
    if missing := [name for name in needed if name not in there]:
        why = (
            f"its picture is gone, and {len(needed)} pictures are needed ({len(missing)} of them "
            "are not there)"
        )
        fix = (
            "Give the data of the training; with all pictures of the others the model is refitted "
            "instead"
        )
        raise Changed(f"sample {missing[0]}", why, fix)


def check_added(kept: Kept, rows: TrunkRows) -> None:
    """Refuses pictures, ages or features that are not those of the training; `Changed` says whose."""
    for name, digest in rows.committed.items():
        if kept.committed.get(name) != digest:
            why = "its picture, age or features are not those that were added"
            fix = (
                "Give the picture of the training, on the machine that trained; with all pictures "
                "of the rest the model is refitted instead"
            )
            raise Changed(f"sample {name}", why, fix)


def _refit_cost(step: Cost, whole: Cost, device: torch.device) -> RetrainCost:
    # a person who was alone in a shard leaves without a pass
    per_pass = step.wall_s / max(step.compute, 1.0)
    return RetrainCost(
        cost=replace(whole, wall_s=per_pass * whole.compute),
        source=(
            f"a refit on the others at {1e3 * per_pass:.3g} ms a pass, as in this step, on "
            f"{describe_device(device)}"
        ),
    )


def _carried(original: Checkpoint) -> dict[str, Any]:
    """What the record of a forget step takes over from the training's; `CheckpointError` where that
    lacks something.
    """
    record, data = original.record, original.record.get("data", {})
    missing = [f"data.{name}" for name in ("spec", "digest", "samples") if name not in data]
    if missing or "seed" not in record:
        why = f"its unplug.json says no {', '.join(missing or ['seed'])}"
        raise CheckpointError(str(original.path), why, RESTORE)
    kept = ("data", "labels", "seed", "design")
    carried = {name: record[name] for name in kept if name in record}
    return {"schema": RECORD_SCHEMA, "recipe": recipe_of(original).to_dict(), **carried}


def measured(
    model: PictureModel, dataset: Dataset, parts: Mapping[str, Sequence[str]], device: torch.device
) -> dict[str, dict[str, Any]]:
    """Metrics of the sets, by those of their pictures that are there; of none there are none."""
    there, rows = set(dataset.ids), {}
    named = model.answers().get("age_edges") or range(model.groups + 1)
    edges = tuple(map(float, named))
    for name, whole in parts.items():
        if ids := [sample for sample in whole if sample in there]:
            data = tensors_of(model, dataset, ids, device)
            rows[name] = summarize(predict(model.to(device), data), edges)
    return rows
