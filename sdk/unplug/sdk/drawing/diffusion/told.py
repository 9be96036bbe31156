"""What a record says of the pictures that weights have learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unplug.sdk.learning.data import Dataset, Split


def told_data(dataset: Dataset, split: Split | None, *before: Mapping[str, Any]) -> dict[str, Any]:
    """What a record says of the pictures that weights have learned, so that a search finds whose
    they are.

    Args:
        dataset: the data.
        split: the samples of this training; None says that it learned all of them.
        before: the records of the weights that it went on from or learned from, empty where they
            have none.

    Returns:
        ``data``, ``split`` and ``earlier``: the splits of the trainings before, the newest first. A
        training whose record lists nobody stands there with its ``data``.
    """
    earlier = []
    for record in before:
        own, more = record.get("split"), record.get("earlier")
        listed = isinstance(own, dict) and "schema" in own
        earlier += [own if listed else {"data": record.get("data")}]
        earlier += more if isinstance(more, list) else []
    data = {"spec": dataset.spec, "digest": dataset.digest, "samples": len(dataset)}
    if split is None:
        split = Split(
            data_digest=dataset.digest,
            seed=0,
            subject_disjoint=True,
            train=dataset.ids,
            validation=(),
            test=(),
        )
    return {"data": data, "split": split.to_dict(), "earlier": earlier}
