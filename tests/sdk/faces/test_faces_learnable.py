"""Age in synthetic faces is learnable but not trivial: a small net on people it never saw errs by 3 to 7 years."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from unplug.sdk.data import load_dataset, make_split
from unplug.sdk.releasing import DEMO_RECIPE, DEMO_SPEC
from unplug.sdk.training import train_age


@pytest.mark.slow
def test_a_small_net_on_unseen_people(tmp_path: Path) -> None:
    dataset = load_dataset(DEMO_SPEC, DEMO_RECIPE.image_size, show=False)
    split = make_split(dataset)
    assert split.subject_disjoint
    trained = train_age(dataset, split, DEMO_RECIPE, tmp_path / "age", seed=0, device=torch.device("cpu"), show=False)
    assert 3.0 < trained.record["metrics"]["test"]["mae"] < 7.0
