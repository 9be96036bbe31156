"""Sets of tensors: age groups at their borders, batches that cover an epoch once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
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
@given(st.integers(2, 50), st.integers(2, 16), st.integers(0, 99))
def test_an_epoch_is_every_index_once_and_never_a_batch_of_one(
    count: int, batch: int, seed: int
) -> None:
    batches = list(empty_set(count).shuffled(batch, torch.Generator().manual_seed(seed)))
    assert sorted(torch.cat(batches).tolist()) == list(range(count))
    assert all(2 <= len(index) <= batch + 1 for index in batches)
    assert len(batches) == steps_per_epoch(count, batch)


def test_one_sample_is_one_batch() -> None:
    assert [len(index) for index in empty_set(1).shuffled(4, torch.Generator())] == [
        1
    ] and steps_per_epoch(1, 4) == 1


def test_the_order_follows_from_the_generator_alone() -> None:
    orders = [
        torch.cat(list(empty_set(40).shuffled(7, torch.Generator().manual_seed(seed))))
        for seed in (0, 0, 1)
    ]
    assert torch.equal(orders[0], orders[1]) and not torch.equal(orders[0], orders[2])


def test_age_groups_at_their_borders() -> None:
    ages = np.array(
        [
            -1.0,
            0.0,
            5.999,
            6.0,
            12.9,
            13.0,
            15.9,
            16.0,
            17.999,
            18.0,
            20.9,
            21.0,
            79.9,
            80.0,
            99.0,
            100.0,
            122.0,
        ]
    )
    assert age_groups(ages, AGE_EDGES).tolist() == [
        0,
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        3,
        4,
        4,
        5,
        11,
        12,
        12,
        12,
        12,
    ]
    assert age_groups(np.array([17.5, 20.0, 99.0]), tuple(range(101))).tolist() == [17, 20, 99]


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
    assert (
        data.ids == ("s5", "s0", "s2")
        and data.age_N.tolist() == [90, 1, 14]
        and data.group_N.tolist() == [12, 0, 2]
    )
    assert torch.equal(
        data.image_NCHW[1], torch.from_numpy(dataset.pixels([0])[0]).permute(2, 0, 1)
    )
    batch = data.batch(torch.tensor([2, 0]))
    assert batch.age_B.tolist() == [14, 90] and batch.image_BCHW.dtype == torch.float32
    assert torch.equal(batch.image_BCHW, data.image_NCHW[[2, 0]].float() / 255)
    part = data.subset([2])
    assert (
        part.ids == ("s2",)
        and torch.equal(part.image_NCHW[0], data.image_NCHW[2])
        and part.age_N.tolist() == [14]
    )


def test_subjects_are_numbered_and_strangers_stand_alone(
    make_dataset: Callable[..., Dataset],
) -> None:
    from dataclasses import replace

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
