"""What an exported file says of a set, in its own runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unplug.core import ArtifactError, InputError
from unplug.sdk.training import ImageSet, LossPredictions, Predictions, truth

if TYPE_CHECKING:
    from .kind import Kind


def ask_artifact(artifact: Any, parts: Sequence[Any], kind: Kind | None) -> list[Predictions]:
    """What an exported file of a kind says of each set; None is that of age predictors."""
    return predict_artifact(artifact, parts) if kind is None else kind.predict_artifact(artifact, parts)


def predict_artifact(artifact: Any, parts: Sequence[ImageSet]) -> list[Predictions]:
    """What an exported file says of each set, in its own runtime.

    Raises:
        ArtifactError: its outputs are not those of an age model.
        ConversionError: its runtime crashed.
    """
    from unplug.export import Session

    image_NCHW = np.concatenate([_pixels(part) for part in parts])
    with Session(artifact) as session:
        outputs = session.run_channels_first({"image": image_NCHW})
    if missing := [name for name in ("age_logits", "expected_age") if name not in outputs]:
        why = f"it has no output {' or '.join(missing)}, so it is no age model"
        raise ArtifactError(str(artifact.path), why, "Audit the artifacts of an age model")
    ends = np.cumsum([len(part) for part in parts])[:-1]
    logits, ages = (np.split(outputs[name], ends) for name in ("age_logits", "expected_age"))
    return [truth(part, logit, age) for part, logit, age in zip(parts, logits, ages, strict=True)]


def finite(name: str, parts: Iterable[Predictions]) -> None:
    """Raises where an output is not a number.

    Raises:
        InputError: some output is NaN or infinite.
    """
    for part in parts:
        ages = np.zeros(0) if isinstance(part, LossPredictions) else part.age_N
        if not (np.isfinite(part.logits_NG).all() and np.isfinite(ages).all()):
            raise InputError(name, "some of its outputs are not numbers", "Check it with `unplug parity`, or export in fp32")


def _pixels(part: ImageSet) -> np.ndarray:
    return part.image_NCHW.to(torch.float32).div_(255.0).contiguous().cpu().numpy()
