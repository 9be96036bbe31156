"""What the pictures of a data set show, in words: what text-conditioned training reads besides the
pixels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from unplug.core import DataError, InputError

from .dataset import Dataset
from .source import Captioned, parse_spec

WITH_CAPTIONS = "captions:DIR, synth:, webdataset:SHARDS"


def captions_of(dataset: Dataset, *, seed: int, variants: int) -> tuple[tuple[str, ...], ...]:
    """The captions of every sample.

    Args:
        dataset: N samples of a source with captions.
        seed: draws the wordings of synthetic faces, at least 0.
        variants: captions a sample at most, at least 1. Synthetic faces have that many: the first
            names everything, the others leave out and reorder. A picture that somebody captioned
            has one.

    Returns:
        N tuples, in the order of ``dataset.samples``; the same for the same arguments.

    Raises:
        DataError: the source has no captions.
        InputError: `seed` or `variants` is out of range.

    Example:
        >>> from unplug.sdk.learning.data import load_dataset
        >>> len(captions_of(load_dataset("synth:n=1", 16, show=False), seed=0, variants=3)[0])
        3
    """
    if seed < 0 or variants < 1:
        raise InputError(
            f"captions with seed {seed}, variants {variants}", "out of range", "Use 0 and 1 or more"
        )
    source = parse_spec(dataset.spec)
    if not isinstance(source, Captioned):
        why = f"it has no captions (these have: {WITH_CAPTIONS})"
        fix = (
            "Put a metadata.jsonl or one .txt file a picture next to the pictures and write "
            "captions:DIR"
        )
        raise DataError(f"data {dataset.spec}", why, fix)
    return tuple(source.captions(sample, seed, variants) for sample in dataset.samples)


def captions_digest(captions: Sequence[Sequence[str]]) -> str:
    """SHA-256 over the captions of N samples in their order, as 64 hexadecimal digits.

    It goes into records next to ``Dataset.digest``, which is of ids, pixels and labels: new words
    leave that one as it is.

    Example:
        >>> captions_digest([("a", "b")]) == captions_digest([("a",), ("b",)])
        False
    """
    digest = hashlib.sha256()
    for texts in captions:
        digest.update(json.dumps(list(texts)).encode() + b"\n")
    return digest.hexdigest()
