"""Many models of a family by each backend: the same weights, kept one by one."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from unplug.core import CheckpointError, InputError, TrainingError
from unplug.sdk.fleet import Order, Result, fit_many, many, pack, read_result, write_result
from unplug.sdk.fleet.many import FitBackend
from unplug.sdk.training import AgeFamily, fit_new

from .models import age_family, class_family, faces

TRAIN, VALIDATION = faces(12), faces(4, seed=1)
FAMILY = class_family(epochs=1, batch_size=6)


def equal(ours: nn.Module, theirs: nn.Module) -> bool:
    pairs = zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.long
@pytest.mark.parametrize("backend", ["loop", "processes"])
def test_the_models_are_those_of_the_loop(backend: FitBackend, tmp_path: Path) -> None:
    models = fit_many(FAMILY, TRAIN, VALIDATION, (4, 2), tmp_path, backend=backend, workers=1)
    for model, seed in zip(models, (4, 2), strict=True):
        assert equal(model, fit_new(FAMILY, TRAIN, VALIDATION, seed=seed).model) and not model.training
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-2.safetensors", "seed-4.safetensors"]
    assert read_result(tmp_path, "seed-4").facts["seed"] == 4


def test_an_age_family_is_written_down_and_read_again(tmp_path: Path) -> None:
    family = age_family(epochs=1, batch_size=6)
    (model,) = fit_many(family, TRAIN, VALIDATION, (1,), tmp_path, backend="loop")
    assert equal(model, fit_new(family, TRAIN, VALIDATION, seed=1).model)
    with many._context(family, TRAIN, VALIDATION, in_file=False) as context:
        work: Any = context.build()
    assert work.family == family
    for ours, theirs in ((work.train, TRAIN), (work.validation, VALIDATION)):
        assert ours.ids == theirs.ids and (ours.subject_N == theirs.subject_N).all()
        assert ours.image_NCHW.stride() == theirs.image_NCHW.stride()
        assert all(torch.equal(getattr(ours, name), getattr(theirs, name)) for name in ("image_NCHW", "age_N", "group_N"))


def test_finished_models_are_read_by_any_backend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fit_many(FAMILY, TRAIN, VALIDATION, (0, 1), tmp_path, backend="stacked", width=1)
    trained: list[int] = []
    monkeypatch.setattr(many, "fit_new", lambda *args, seed, **more: trained.append(seed) or fit_new(*args, seed=seed, **more))
    again = fit_many(FAMILY, TRAIN, VALIDATION, (1, 5, 0), tmp_path, backend="loop")
    assert trained == [5]
    assert equal(again[0], first[1]) and equal(again[2], first[0])
    fit_many(FAMILY, faces(12, seed=3), VALIDATION, (1,), tmp_path, backend="loop")  # other data
    fit_many(class_family(epochs=1, batch_size=4), TRAIN, VALIDATION, (1,), tmp_path, backend="loop")  # another recipe
    assert trained == [5, 1, 1]


def test_a_kill_loses_one_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = many.fit_stacked

    def killed(*args: Any, seeds: Any, **more: Any) -> list[nn.Module]:
        if 2 in seeds:
            raise KeyboardInterrupt
        return fitted(*args, seeds=seeds, **more)

    monkeypatch.setattr(many, "fit_stacked", killed)
    with pytest.raises(KeyboardInterrupt):
        fit_many(FAMILY, TRAIN, VALIDATION, range(4), tmp_path, backend="stacked", width=2)
    assert sorted(path.stem for path in tmp_path.iterdir()) == ["seed-0", "seed-1"]


@dataclass(frozen=True, kw_only=True)
class Odd(AgeFamily):
    centers: torch.Tensor = field(default_factory=lambda: torch.zeros(3))


def test_bad_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family = age_family(epochs=1)
    with pytest.raises(InputError, match="given twice"):
        fit_many(family, TRAIN, VALIDATION, (1, 1), tmp_path)
    with pytest.raises(InputError, match="cannot be written down"):
        fit_many(age_family(Odd), TRAIN, VALIDATION, (1,), tmp_path)
    with pytest.raises(TrainingError, match="too few"):
        fit_many(family, TRAIN.subset([0]), VALIDATION, (1,), tmp_path / "few", backend="loop")
    monkeypatch.setattr(many, "fit_new", lambda *_, **__: 1 / 0)
    with pytest.raises(TrainingError, match="1 of 1 models: seed-1 failed"):
        fit_many(family, TRAIN, VALIDATION, (1,), tmp_path, backend="loop")
    with pytest.raises(InputError, match="no such name"):
        fit_many(family, TRAIN, VALIDATION, (1,), tmp_path, backend="clouds")  # type: ignore[arg-type]


def test_weights_of_another_network_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forge(jobs: Any, context: Any, out: Path, *, fingerprint: str, **_: Any) -> Any:
        for job in jobs:
            write_result(out, job.name, pack(Result(), Order(job=job, fingerprint="", given=fingerprint)))
        return type("Summary", (), {"failed": {}})

    monkeypatch.setattr(many, "run_jobs", forge)
    with pytest.raises(CheckpointError, match="another network"):
        fit_many(FAMILY, TRAIN, VALIDATION, (1,), tmp_path, backend="loop")
