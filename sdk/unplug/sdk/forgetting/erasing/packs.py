"""Packs forget exactly: the base never saw their pictures, so a pack is deleted, or trained again
without those who leave while others stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unplug.core import (
    CheckpointError,
    InputError,
    OutputError,
    check_replaceable,
    counted,
    hold,
    sha256_file,
)
from unplug.plugins import RECORD
from unplug.sdk.drawing.device import WEIGHTS_NAME
from unplug.sdk.drawing.diffusion import (
    LOW_RANK_FILES,
    PackRecipe,
    base_digest,
    load_base,
    pack_record,
    train_pack,
)
from unplug.sdk.learning.data import Dataset, Split, keyed, opened_again, split_for
from unplug.sdk.learning.training import training_dir


@dataclass(frozen=True, kw_only=True)
class LearnedPack:
    """A pack, with the base that it was trained on.

    Args:
        folder: the pack's folder.
        record: the contents of its ``unplug.json``.
        split: the people that it was trained on, as recorded there.
        base: see `load_base`; its hash is the one in the record.
        sha256: the SHA-256 of its weights; None where a deletion that was cut off has taken them.
    """

    folder: Path
    record: dict[str, Any]
    split: Split
    base: Any
    sha256: str | None

    def left(self, dataset: Dataset, ids: Sequence[str]) -> tuple[str, ...]:
        """The people it would still be trained on without some more samples.

        Raises:
            DataError: other data than those of its training.
            InputError: its names are digests under a key that is not here.
        """
        retained = opened_again(self.split, dataset, self.folder).there(dataset).retain
        gone = set(ids)
        return tuple(name for name in retained if name not in gone)

    @property
    def facts(self) -> dict[str, Any]:
        """What a forgetting says of the pack and its base, ready for JSON."""
        return {
            "word": self.record["word"],
            "pack_sha256": self.sha256,
            "base": {name: self.record["base"].get(name) for name in ("name", "sha256")},
        }


def open_pack(folder: Path, base: str | None, *, device: torch.device) -> LearnedPack:
    """Reads a pack, and looks whether the given base is the one that its record names: the
    model that never saw its pictures.

    Args:
        folder: a folder that `unplug train pack` wrote.
        base: see `load_base`; None takes the one in the record.
        device: the device for the base.

    Raises:
        CheckpointError: no such folder, another record, another base, or weights that are a link.
        DataError: its split is broken.
        OutputError: the folder holds something else, too.
    """
    record = pack_record(folder)
    if folder.is_symlink() or any((folder / name).is_symlink() for name in LOW_RANK_FILES):
        fix = "Give the folder itself, with its files in it"
        raise CheckpointError(str(folder), "it is a link, or its files are", fix)
    check_replaceable(folder, RECORD, LOW_RANK_FILES)
    split = Split.from_dict(record.get("split"), str(folder / RECORD))
    told = record.get("base")
    name, digest = map((told if isinstance(told, dict) else {}).get, ("name", "sha256"))
    if not isinstance(name, str) or not isinstance(digest, str):
        raise CheckpointError(str(folder / RECORD), "it names no base", "Train the pack again")
    opened = load_base(base or name, device=device)
    if base_digest(opened) != digest:
        why = (
            f"it is not the base of {folder} (SHA-256 {digest[:12]}), which never saw its pictures"
        )
        raise CheckpointError(base or name, why, "Give that one as `base`")
    weights = folder / WEIGHTS_NAME
    sha256 = sha256_file(weights) if weights.exists() else None
    return LearnedPack(folder=folder, record=record, split=split, base=opened, sha256=sha256)


def delete_pack(pack: LearnedPack) -> dict[str, Any]:
    """Deletes a pack, and what an interrupted training left next to it.

    Args:
        pack: see `open_pack`.

    Returns:
        What was done, ready for JSON.

    Raises:
        OutputError: another process uses it, or it cannot be deleted.
    """
    with hold(pack.folder):
        shutil.rmtree(training_dir(pack.folder), ignore_errors=True)
        try:
            # The record last: a caller that is cut off can call again.
            for name in reversed(LOW_RANK_FILES):
                (pack.folder / name).unlink(missing_ok=True)
            pack.folder.rmdir()
        except OSError as error:
            why = error.strerror or str(error)
            fix = "Look at the folder's permissions, and call again"
            raise OutputError(str(pack.folder), f"not deleted ({why})", fix) from error
    return {
        "deleted": str(pack.folder),
        **pack.facts,
        "method": "delete",
        "samples": len(pack.split.retain),
        "exact": True,
        "how": f"the pack was deleted; {_untouched(pack)}",
    }


def retrain_pack(
    pack: LearnedPack,
    dataset: Dataset,
    ids: Sequence[str],
    out: Path,
    *,
    device: torch.device,
    restart: bool = False,
    show: bool = True,
) -> dict[str, Any]:
    """Trains a pack again without some of its samples, by its own recipe and seed; on the machine of
    the first training that gives the very weights of a pack that never saw them.

    Args:
        pack: see `open_pack`.
        dataset: the data that it was trained on.
        ids: the people to forget; others stay, see `LearnedPack.left`.
        out: folder to write; the pack's own is replaced.
        device: the device to compute on.
        restart: drop an unfinished run.
        show: progress bars.

    Returns:
        What was done, ready for JSON; ``forget`` of the new record says the same.

    Raises:
        DataError: other data, or nobody of these was trained on.
        InputError, TrainingError, OutputError: see `train_pack`.
    """
    split = split_for(opened_again(pack.split, dataset, pack.folder), dataset, ids)
    rest = split.there(dataset).retain
    recipe, seed = PackRecipe.from_dict(pack.record.get("recipe")), pack.record.get("seed")
    if type(seed) is not int or seed < 0:
        raise InputError(str(pack.folder / RECORD), "it names no seed", "Train the pack again")
    others = f"trained again on the other {counted(len(rest), 'sample')}"
    step = {
        "method": "retrain",
        "samples": len(split.forget),
        "set_sha256": keyed(split).forget_sha256,
        "exact": True,
        "how": f"{others} by the same recipe and seed; {_untouched(pack)}",
        **pack.facts,
    }
    record = train_pack(
        pack.base,
        pack.record["base"]["name"],
        dataset.only(rest),
        pack.record["word"],
        out,
        recipe,
        seed=seed,
        device=device,
        half=pack.record.get("half") is True,
        restart=restart,
        show=show,
        again={"data": dataset.facts, "split": keyed(split).to_dict(), "forget": step},
    )
    return {"out": str(out), **step, "loss": record["loss"]}


def _untouched(pack: LearnedPack) -> str:
    base = pack.record["base"]
    return f"the base {base['name']} (SHA-256 {base['sha256']}) never saw its pictures"
