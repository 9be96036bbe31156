"""Sets of tensors: age groups at their borders, batches that cover an epoch once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unplug.core import DataError
from unplug.plugins import AGE_EDGES
from unplug.sdk.learning.data import Dataset
from unplug.sdk.learning.training import ImageSet, steps_per_epoch, to_tensors
from unplug.sdk.learning.training.images import age_groups

CPU = torch.device("cpu")


def empty_set(count: int) -> ImageSet:
    return ImageSet(
        ids=tuple(map(str, range(count))),
        image_NCHW=torch.zeros(count, 3, 1, 1, dtype=torch.uint8),
        age_N=torch.zeros(count),
        group_N=torch.zeros(count, dtype=torch.int64),
        subject_N=np.zeros(count),
    )


@settings(max_examples=300)
@given(st.integers(1, 50), st.integers(2, 16), st.integers(0, 99))
def test_an_epoch_is_every_index_once_and_never_a_batch_of_one(
    count: int, batch: int, seed: int
) -> None:
    """Of one sample alone there is one batch of one; a generator's seed decides the order."""
    batches, again = (
        list(empty_set(count).shuffled(batch, torch.Generator().manual_seed(seed)))
        for _ in range(2)
    )
    assert sorted(torch.cat(batches).tolist()) == list(range(count))
    assert torch.equal(torch.cat(batches), torch.cat(again))
    assert all(min(2, count) <= len(index) <= batch + 1 for index in batches)
    assert len(batches) == steps_per_epoch(count, batch)


AT_BORDERS = [-1.0, 0.0, 5.999, 6.0, 12.9, 13.0, 17.999, 18.0, 20.9, 21.0, 79.9, 80.0, 100.0, 122.0]


@example(AT_BORDERS)
@given(st.lists(st.floats(0, 122), min_size=1, max_size=20))
def test_age_groups_agree_with_a_loop(ages: list[float]) -> None:
    slow = [
        next((g for g in range(len(AGE_EDGES) - 2, -1, -1) if age >= AGE_EDGES[g]), 0)
        for age in ages
    ]
    assert age_groups(np.array(ages), AGE_EDGES).tolist() == slow


def test_tensors_hold_the_pixels_and_labels_of_the_ids_asked_for(
    make_dataset: Callable[..., Dataset],
) -> None:
    dataset = make_dataset(6, ages=[1.0, 6.0, 14.0, 22.0, 33.0, 90.0])
    data = to_tensors(dataset, ["s5", "s0", "s2"], AGE_EDGES, CPU)
    assert data.ids == ("s5", "s0", "s2") and data.age_N.tolist() == [90, 1, 14]
    assert data.group_N.tolist() == [12, 0, 2]
    pixels_HWC = torch.from_numpy(dataset.pixels([0])[0])
    assert torch.equal(data.image_NCHW[1], pixels_HWC.permute(2, 0, 1))
    batch = data.batch(torch.tensor([2, 0]))
    assert batch.age_B.tolist() == [14, 90] and batch.image_BCHW.dtype == torch.float32
    assert torch.equal(batch.image_BCHW, data.image_NCHW[[2, 0]].float() / 255)
    part = data.subset([2])
    assert part.ids == ("s2",) and part.age_N.tolist() == [14]
    assert torch.equal(part.image_NCHW[0], data.image_NCHW[2])


def test_subjects_are_numbered_and_strangers_stand_alone(
    make_dataset: Callable[..., Dataset],
) -> None:
    dataset = make_dataset(5)
    owners: list[Any] = ["a", None, "b", "a", None]
    samples = tuple(
        replace(sample, subject=owner)
        for sample, owner in zip(dataset.samples, owners, strict=True)
    )
    data = to_tensors(replace(dataset, samples=samples), dataset.ids, AGE_EDGES, CPU)
    assert data.subject_N.tolist() == [0, 1, 2, 0, 3]


def test_a_sample_without_an_age_is_named(make_dataset: Callable[..., Dataset]) -> None:
    dataset = make_dataset(4, ages=[1.0, 2.0, None, None])
    with pytest.raises(DataError, match="sample s2 has no age"):
        to_tensors(dataset, ["s1", "s0", "s2", "s3"], AGE_EDGES, CPU)
