"""Training the judge once for a data set, and finding it again in the cache."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from unplug.core import atomic_path, cache_dir, sha256_file
from unplug.plugins import safetensors_errors
from unplug.sdk.data import Dataset
from unplug.sdk.diffusion import StepRecipe, train_steps
from unplug.sdk.training import StateFile, fingerprint, seeded

from .attributes import ATTRIBUTES
from .judge import Faces, Judge, JudgeLoss, targets, vocabulary

FORMAT = "unplug-judge/1"
RECIPE = StepRecipe(steps=1600, batch_size=64, lr=4e-3, warmup=100, weight_decay=0.02, ema=0.99)
"""About two minutes on two cores that multiply bf16 in hardware."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """A judge and where it came from.

    Args:
        judge: in eval mode. sha256: of its weight file. samples: faces that it was trained on.
    """

    judge: Judge
    sha256: str
    samples: int


def train_judge(
    dataset: Dataset,
    words: Sequence[Mapping[str, str]],
    ids: Sequence[str],
    recipe: StepRecipe = RECIPE,
    *,
    device: torch.device,
    seed: int = 0,
    show: bool = True,
) -> Trained:
    """The judge of a data set, from the cache or into it; an unfinished training is continued.

    Args:
        dataset: faces.
        words: `face_words` of all its samples.
        ids: the faces that it may learn from: none that a generated picture is compared with.
        recipe: how.
        device: where to compute.
        seed: of weights and order.
        show: progress bar.
    """
    positions = dataset.indices(ids)
    own = [words[int(position)] for position in positions]
    known = vocabulary(own, ATTRIBUTES)
    key = fingerprint(
        format=FORMAT, data=dataset.digest, size=dataset.size, ids=list(ids), words=known, recipe=recipe.to_dict(), seed=seed
    )
    path = cache_dir() / "diffusion" / f"judge-{key[:32]}.safetensors"
    with seeded(seed, 41):
        judge = Judge(known)
    if not _load(judge, path, key):
        _fit(judge, dataset.images, dataset.rows[positions], targets(own, known), recipe, path, key, device, seed, show)
    return Trained(judge=judge.eval(), sha256=sha256_file(path), samples=len(own))


def _load(judge: Judge, path: Path, key: str) -> bool:
    """Fills in the weights; False where the cache holds nothing whole (a truncated file is trained again)."""
    if not path.is_file():
        return False
    try:
        with safe_open(path, framework="pt") as handle:
            if json.loads((handle.metadata() or {})["record"])["key"] != key:
                return False
            judge.load_state_dict({name: handle.get_tensor(name) for name in handle.keys()})  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, KeyError, ValueError, TypeError, RuntimeError):
        return False
    return True


def _fit(
    judge: Judge, images: NDArray[np.uint8], rows: NDArray[np.int64], target_NA: NDArray[np.int64], recipe: StepRecipe,
    path: Path, key: str, device: torch.device, seed: int, show: bool,
) -> None:  # fmt: skip
    state = StateFile(path=path.with_suffix(".training"), fingerprint=f"{key}/{torch.__version__}")
    # A copy: another memory layout rounds otherwise, and the first call must read pictures as later ones do.
    model = JudgeLoss(copy.deepcopy(judge).to(memory_format=torch.channels_last))  # type: ignore[call-overload]
    done = train_steps(
        model, Faces(images, rows, target_NA, device), recipe, seed=seed, device=device, state=state, show=show, label="judge"
    )
    average: Any = done.model
    weights = {name: value.detach().cpu().contiguous() for name, value in average.judge.state_dict().items()}
    notes = {"key": key, "loss": done.history[-1]["loss"]}
    with atomic_path(path) as temporary, safetensors_errors(path):
        save_file(weights, temporary, metadata={"record": json.dumps(notes)})
    state.path.unlink(missing_ok=True)
    judge.load_state_dict(weights)
