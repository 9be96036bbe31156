"""A released head computed again by a second party, from the bundle and the state next to the
weights.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from unplug.core import CheckFailed, InputError, counted
from unplug.plugins import DESIGN_STATE, Checkpoint
from unplug.sdk.forgetting.unlearning import ClosedForm, HeadSums, own_design, rows_of
from unplug.sdk.learning.data import Dataset, opened_names
from unplug.sdk.learning.training import split_of
from unplug.trust.bundle import (
    HEAD_FILE,
    Manifest,
    Trust,
    all_exported_files,
    open_source,
    read_whole,
    verify_bundle,
)
from unplug.trust.certificates import Absences, list_in
from unplug.trust.ledger import CommittedList, prove_absence

MAX_STATE_BYTES, MAX_FILE_BYTES = 2**28, 2**29
PLAIN = ("fp32", "fp16")
"""A file of another precision may hold its head by scales of its own."""
NOT_SHOWN = (
    "This binds the operator to a list, and the list to the weights; it does not prove that nobody "
    "kept a copy"
)


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What came out when a released head was computed again.

    Args:
        samples: how many commitments the state holds.
        root: the root of the sorted tree over them.
        equal, differs: the comparisons by their outcome, a line each.
        untold: a line for each file that could not be compared, and why.
        seconds: wall time of all of it.
    """

    samples: int
    root: str
    equal: tuple[str, ...]
    differs: tuple[str, ...]
    untold: tuple[str, ...]
    seconds: float


@dataclass(kw_only=True)
class _Noted:
    equal: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)
    untold: list[str] = field(default_factory=list)

    def note(self, what: str, why: str | None) -> None:
        """One comparison; `why` says how the two differ, None is equality."""
        (self.equal if why is None else self.differs).append(
            what if why is None else f"{what}: {why}"
        )


def committed_list(checkpoint: Checkpoint) -> CommittedList | None:
    """The list of who is in a closed-form model; None of another.

    Raises:
        CheckpointError: see `OverTrunk.load`.
        InputError: two samples have one commitment.
    """
    design = own_design(checkpoint)
    if not isinstance(design, ClosedForm):
        return None
    return CommittedList.of(design.load(checkpoint).committed.values())


def absences(
    original: Checkpoint,
    unlearned: Checkpoint,
    dataset: Dataset,
    samples: Mapping[str, Collection[str]],
) -> Absences | None:
    """Proofs that pictures which left a closed-form model are not in its list; None of another.

    Args:
        original, unlearned: the model before and after.
        dataset: the data, whose ids the samples are.
        samples: id of a request to its samples; those that the original did not hold need no proof.

    Raises:
        CheckpointError: see `OverTrunk.load`.
        InputError: one of them is in the list.
    """
    design = own_design(original)
    if not isinstance(design, ClosedForm):
        return None
    before = design.load(original)
    before.rename(opened_names(split_of(original), dataset))
    left = sorted(design.load(unlearned).committed.values())
    proofs = {
        id: tuple(
            prove_absence(left, before.committed[name])
            for name in sorted(names)
            if name in before.committed
        )
        for id, names in samples.items()
    }
    return Absences(requests=proofs)


def replay_release(
    bundle: Path,
    checkpoint: Checkpoint,
    *,
    dataset: Dataset | None = None,
    trust: Trust | None = None,
    device: torch.device,
    show: bool = False,
) -> Replay:
    """Computes a released head again from integer sums, and compares bit for bit.

    theta' = solve(S) of the state's sums S must be theta of the weights and of every exported file
    of full or half precision; the root over the state's commitments must be the bundle's. With
    data also S' = sum_n z_n z_n^T over those pictures whose commitments the state holds must be S.
    All of it is the same on every machine but the trunk's pass over pictures.

    A file that holds the true head and another, which runs, is not found here: `unplug parity`
    compares answers.

    Args:
        bundle: the folder or zip file that was released; verified first.
        checkpoint: the released closed-form checkpoint, with its ``design.safetensors``.
        dataset: the data of the training, at the model's size; None compares no pictures.
        trust: keys that count, needed for a bundle that is signed.
        device: the device for the trunk's pass over the pictures.
        show: progress bar.

    Raises:
        InputError: a model of another design; no state or too large a one; two samples of one
            commitment; a bundle without the list.
        CheckFailed: the state contradicts itself, or the bundle does not verify.

    Example:
        >>> replay_release(path, state, device=torch.device("cpu")).differs  # doctest: +SKIP
        ()
    """
    start, noted = time.perf_counter(), _Noted()
    design = _closed_form(checkpoint)
    manifest = verify_bundle(bundle, trust)
    if (said := list_in(bundle, manifest)) is None:
        why = "it carries no list of who is in"
        raise InputError(str(bundle), why, "Release it again with `unplug release`")
    try:
        kept = design.load(checkpoint)
    except InputError as error:
        raise CheckFailed(error.what, error.why, "Ask for the state that was released") from error
    held = CommittedList.of(kept.committed.values())
    noted.note("the list of who is in", _other_list(held, said))
    head = _head(design, checkpoint, kept)
    noted.note("the weights", _other_weights(checkpoint, manifest, head))
    _compare_files(bundle, manifest, head, noted)
    if dataset is not None:
        _compare_pictures(design, checkpoint, kept, dataset, device, show, noted)
    return Replay(
        samples=held.samples,
        root=held.root,
        equal=tuple(noted.equal),
        differs=tuple(noted.differs),
        untold=tuple(noted.untold),
        seconds=time.perf_counter() - start,
    )


def _closed_form(checkpoint: Checkpoint) -> ClosedForm:
    """The design of a checkpoint that can be computed again."""
    design, place = own_design(checkpoint), checkpoint.path / DESIGN_STATE
    if not isinstance(design, ClosedForm):
        name = (
            "an ordinary model"
            if design is None
            else f"of the design {checkpoint.record['design']['name']}"
        )
        why = f"it is {name}, and replay checks closed forms"
        raise InputError(str(checkpoint.path), why, "Give the released closed-form checkpoint")
    if not place.is_file() or place.stat().st_size > MAX_STATE_BYTES:
        why = "it is not there, or larger than any state"
        raise InputError(str(place), why, "Give the released checkpoint with its state")
    return design


def _other_list(held: CommittedList, said: CommittedList) -> str | None:
    if held == said:
        return None
    ours, theirs = (
        f"{item.root[:16]} over {counted(item.samples, 'sample')}" for item in (held, said)
    )
    return f"the state has {ours}, and the bundle {theirs}"


def _head(design: ClosedForm, checkpoint: Checkpoint, kept: HeadSums) -> dict[str, Tensor]:
    """What the sums give, as a network holds it."""
    filled = copy.deepcopy(checkpoint.model)
    design.fill(filled, kept, checkpoint.record["design"])
    return {name: filled.state_dict()[name].cpu() for name in design.own}


def _other_weights(
    checkpoint: Checkpoint, manifest: Manifest, head: Mapping[str, Tensor]
) -> str | None:
    weights = checkpoint.model.state_dict()
    wrong = sum(_unequal_bits(weights[name].cpu(), value) for name, value in head.items())
    if wrong:
        count = sum(value.numel() for value in head.values())
        return f"{wrong} of {count} numbers of the head are not what the sums give"
    if checkpoint.sha256 != manifest.lineage.checkpoint_sha256:
        return (
            f"they are not those that the bundle names, {manifest.lineage.checkpoint_sha256[:16]}"
        )
    return None


def _unequal_bits(first: Tensor, second: Tensor) -> int:
    """How many numbers differ, 0 from -0 as well."""
    same = first.dtype == second.dtype == torch.float32
    return (
        int((first.view(torch.int32) != second.view(torch.int32)).sum()) if same else first.numel()
    )


def _compare_files(
    bundle: Path, manifest: Manifest, head: Mapping[str, Tensor], noted: _Noted
) -> None:
    """The head in every exported file that holds its numbers as they are, a member's too."""
    names = all_exported_files(manifest) + [HEAD_FILE] * (HEAD_FILE in manifest.files)
    with open_source(bundle) as source:
        for name in names:
            precision = "fp32" if name == HEAD_FILE else name.split(".")[-2]
            parts = [part for part in manifest.files if part == name or part.startswith(f"{name}/")]
            raw = b"\0".join(read_whole(source, part, MAX_FILE_BYTES) for part in parts)
            there = all(
                any(form in raw for form in forms_of(value, half=precision != "fp32"))
                for value in head.values()
            )
            if there or precision in PLAIN:
                noted.note(name, None if there else "its head is not the one that the sums give")
            else:
                noted.untold.append(f"{name}: it holds its head by scales of its own")


def forms_of(value: Tensor, *, half: bool) -> list[bytes]:
    """The bytes of a tensor of the head in files: in float32, and with `half` in float16, where
    ONNX Runtime's converter leaves no number at 0 that was none.
    """
    if not half:
        return [value.numpy().tobytes()]
    rounded = value.half()
    lost = (rounded == 0) & (value != 0)
    kept = torch.where(lost, value.sign().half() * 2.0**-24, rounded)
    return [form.numpy().tobytes() for form in (value, rounded, kept)]


def _compare_pictures(
    design: ClosedForm,
    checkpoint: Checkpoint,
    kept: HeadSums,
    dataset: Dataset,
    device: torch.device,
    show: bool,
    noted: _Noted,
) -> None:
    """The sums from the pictures: who is in is known by commitment, for names are under a key."""
    record, model = checkpoint.record, checkpoint.model.to(device)
    rows = rows_of(model, record["design"]["grid"], dataset, dataset.ids, device, show=show)
    listed = {*kept.committed.values()}
    inside = [name for name, digest in rows.committed.items() if digest in listed]
    lost = len(listed) - len(inside)
    word = (
        f"{lost} of {counted(len(listed), 'commitment')} fit no picture, name and truth of the data"
    )
    noted.note("the commitments, from the pictures", word if lost else None)
    if not lost:
        again = design.fit(model, kept, rows.named(inside), int(record["seed"]))
        same = torch.equal(again.head.sums, kept.head.sums)
        noted.note("the sums, from the pictures", None if same else "they are sums over others")
