"""Small models of each design, trained once a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.forgetting.unlearning import ClosedForm, Shards, forget
from unplug.sdk.forgetting.unlearning.designs.trunk import TrunkRows, rows_of
from unplug.sdk.learning.data import Dataset, Split, load_dataset, make_split
from unplug.sdk.learning.training import Recipe

PERSONAL, CONSENTED = "synth:n=90,subjects=30,seed=1", "synth:n=80,subjects=40,seed=2"
RECIPE = Recipe(size="nano", image_size=32, epochs=1)
CPU = torch.device("cpu")
TRUNK = "closed-form-trunk"
FORMS = {
    "closed-form": ClosedForm(random_features=48),
    "shards": Shards(shards=5, slices=2, hidden=4, epochs=3),
}


@dataclass(frozen=True, kw_only=True)
class World:
    """Personal data, and a model of one design that was fitted on its retain set."""

    design: str
    form: ClosedForm | Shards
    personal: Dataset
    split: Split
    original: Checkpoint

    def without(
        self, ids: Sequence[str], out: Path, method: str | None = None, **more: Any
    ) -> Checkpoint:
        """The model after forgetting some samples; `start` and `data` in place of the world's own."""
        start, data = more.pop("start", self.original), more.pop("data", self.personal)
        return forget(start, data, ids, method, out, device=CPU, show=False, **more)

    def reads(self, gone: str) -> list[str]:
        """The samples whose pictures are needed to take one out."""
        return self.form.reads(self.form.load(self.original), [gone])

    @property
    def rows(self) -> TrunkRows:
        """What the design sees of the retain set."""
        return self.rows_of(self.split.retain)

    def rows_of(self, ids: Sequence[str]) -> TrunkRows:
        grid = self.original.record["design"]["grid"]
        return rows_of(self.original.model, grid, self.personal, ids, CPU)


@pytest.fixture(scope="session")
def personal() -> Dataset:
    return load_dataset(PERSONAL, 32, show=False)


@pytest.fixture(scope="session")
def consented() -> Dataset:
    return load_dataset(CONSENTED, 32, show=False)


@pytest.fixture(scope="session")
def worlds(
    personal: Dataset, consented: Dataset, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, World]:
    """By design; the first trains the trunk of all."""
    split, folder, made = make_split(personal, seed=0), tmp_path_factory.mktemp("designs"), {}
    for design, form in FORMS.items():
        trunk = load_checkpoint(folder / TRUNK) if made else None
        original = form.train(
            personal,
            split,
            RECIPE,
            folder / design,
            trunk=trunk,
            trunk_data=consented,
            device=CPU,
            show=False,
        )
        made[design] = World(
            design=design, form=form, personal=personal, split=split, original=original
        )
    return made


@pytest.fixture(scope="session", params=list(FORMS))
def world(request: pytest.FixtureRequest, worlds: dict[str, World]) -> World:
    return worlds[request.param]


def same(first: Checkpoint, second: Checkpoint) -> bool:
    """Whether two models are equal bit for bit."""
    return all(
        torch.equal(value, second.model.state_dict()[name])
        for name, value in first.model.state_dict().items()
    )


def only(data: Dataset, ids: Sequence[str]) -> Dataset:
    """What is left of some data."""
    position = [data.ids.index(name) for name in ids]
    return replace(
        data,
        samples=tuple(data.samples[index] for index in position),
        rows=data.rows[position],
        digest="0" * 64,
    )
