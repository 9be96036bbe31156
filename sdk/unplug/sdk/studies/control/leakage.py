"""What the base may know of the held-out samples."""

from __future__ import annotations

from typing import Any

from unplug.core import DataError
from unplug.sdk.data import SynthSource, make_split, parse_spec
from unplug.sdk.diffusion import base_record

from .setup import Setup


def seen_by_base(setup: Setup) -> str | None:
    """What the base's record says about the held-out samples, in a sentence; None where it says nothing of the kind."""
    record = base_record(setup.request.base)
    data = record.get("data")
    if not isinstance(data, dict):
        return None
    if data.get("digest") != setup.dataset.digest:
        seed = _synth_seed(str(data.get("spec")))
        if seed is None or seed != _synth_seed(setup.dataset.spec):
            return None
        same = f"The base was trained on synthetic faces of the same seed ({seed})"
        return f"{same}: the same faces can be in both, alike in every row."
    held_out, known = (*setup.sources.ids, *setup.others.ids), _trained_on(setup, record.get("split"))
    if known is None:
        return "The base was trained on the same data and may have seen any of the held-out pictures, alike in every row."
    return (
        f"The base was trained on the same data: {len(known.intersection(held_out))} of the {len(held_out)} held-out samples "
        f"are in its training set, {len(known.intersection(setup.sources.ids))} of them among the {len(setup.sources)} that "
        "pictures are made from, alike in every row."
    )


def _synth_seed(spec: str) -> int | None:
    source = parse_spec(spec) if spec.startswith("synth:") else None
    return source.options["seed"] if isinstance(source, SynthSource) else None


def _trained_on(setup: Setup, split: Any) -> set[str] | None:
    """Ids of the base's training set, split again by the seed and the sizes in its record; None where that fails."""
    total = len(setup.dataset)
    try:
        validation, test = int(split["validation"]), total - int(split["train"]) - int(split["validation"])
        made = make_split(setup.dataset, seed=int(split["seed"]), validation=validation / total, test=test / total)
    except (KeyError, TypeError, ValueError, DataError):
        return None
    return set(made.train) if made.sha256 == split.get("sha256") else None
