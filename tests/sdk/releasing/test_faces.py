"""Pictures of people for the local report: of the test set, and of nobody who was forgotten."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from unplug.sdk.learning.data import Dataset, Split, load_dataset
from unplug.sdk.learning.training import load_sets
from unplug.sdk.releasing.contents import face_samples

from ..conftest import CPU

EDGES = (0.0, 30.0, 60.0, 120.0)


def shown(dataset: Dataset, forget: tuple[str, ...], test: tuple[str, ...]) -> set[str]:
    """Ids of the pictures that a report would show."""
    held = {*forget, *test}
    rest = tuple(name for name in dataset.ids if name not in held)
    split = Split(
        data_digest=dataset.digest,
        seed=0,
        subject_disjoint=False,
        train=(*forget, *rest[1:]),
        validation=rest[:1],
        test=test,
        forget=forget,
    )
    sheet = face_samples(load_sets(dataset, split, EDGES, CPU), dataset, {})
    drawn = [np.asarray(Image.open(io.BytesIO(base64.b64decode(face.png)))) for face in sheet.faces]
    return {
        dataset.ids[row]
        for row in range(len(dataset))
        for face in drawn
        if np.array_equal(face, dataset.pixels([row])[0])
    }


def test_who_was_forgotten_is_not_shown_by_another_picture() -> None:
    dataset = load_dataset("synth:n=24,subjects=8", 32, show=False)
    by_subject: dict[str | None, list[str]] = {}
    for sample in dataset.samples:
        by_subject.setdefault(sample.subject, []).append(sample.id)
    first, *others = by_subject.values()
    test = (*first[1:], *(own[-1] for own in others))
    assert shown(dataset, (first[0],), test) == {own[-1] for own in others}
    assert shown(dataset, (others[0][0],), (*first, *(own[-1] for own in others))) == {
        *first,
        *(own[-1] for own in others[1:]),
    }
    assert shown(dataset, (first[0],), tuple(first[1:])) == set(), "nobody is left to show"
