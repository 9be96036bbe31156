"""Retraining a plugin is training it on the retain set; a killed one goes on to the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from unplug.core import CheckpointError
from unplug.plugins import Checkpoint
from unplug.sdk.drawing.diffusion import load_base, steps, train_plugin
from unplug.sdk.forgetting.unlearning import check_oracle
from unplug.sdk.learning.training import update_average

from .conftest import CPU, RECIPE, PluginWorld


@pytest.fixture(scope="module")
def retrained(plugin_world: PluginWorld, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return plugin_world.without("retrain", tmp_path_factory.mktemp("retrained") / "out")


def same(one: Checkpoint, other: Checkpoint) -> bool:
    theirs = other.model.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.model.state_dict().items())


def test_retrain_is_train_plugin_on_the_retain_set(
    plugin_world: PluginWorld, retrained: Checkpoint, tmp_path: Path
) -> None:
    world = plugin_world
    trained = train_plugin(
        load_base(str(world.base), device=CPU),
        str(world.base),
        world.dataset,
        world.request,
        "canny",
        tmp_path / "trained",
        RECIPE,
        seed=0,
        device=CPU,
        sample_every=0,
        show=False,
        role="retrained",
    )
    assert same(retrained, trained) and not same(retrained, world.original)
    assert retrained.record["metrics"]["test"]["loss"] == pytest.approx(
        trained.record["metrics"]["test"]["loss"], rel=1e-6
    )
    check_oracle(trained, world.request, RECIPE)  # so it serves as an oracle as well
    world.task.check_twin(trained)


def test_the_record_says_what_a_plugins_must(
    plugin_world: PluginWorld, retrained: Checkpoint
) -> None:
    record, original = retrained.record, plugin_world.original.record
    assert record["schema"] == "unplug-plugin/1" and record["role"] == "retrained"
    kept = (
        "base",
        "condition",
        "captions",
        "parameters",
        "image_size",
        "recipe",
        "data",
        "earlier",
    )
    for key in kept:
        assert record[key] == original[key], key
    assert record["lineage"]["original_sha256"] == plugin_world.original.sha256
    assert record["history"][-1]["step"] == RECIPE.steps
    assert record["cost"]["forward"] == RECIPE.steps * RECIPE.batch_size
    assert record["forget"]["cost"]["compute_fraction"] == 1.0
    sizes = {name: row["n"] for name, row in record["metrics"].items()}
    assert sizes == {"retain": 18, "forget": 10, "test": 12}
    card = (retrained.path / "README.md").read_text()
    assert "retrained" in card and "10 samples" in card


def test_another_seed_sees_the_same_prompts(
    plugin_world: PluginWorld, retrained: Checkpoint, tmp_path: Path
) -> None:
    other = plugin_world.without("retrain", tmp_path / "other", seed=7)
    assert other.record["seed"] == 7 and other.record["captions_seed"] == 0
    assert not same(other, retrained)


def test_a_killed_retraining_goes_on_to_the_same_weights(
    plugin_world: PluginWorld,
    retrained: Checkpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []

    def watched(average: Any, model: Any, decay: float, step: int, *, last: int) -> None:
        if step > last:
            raise KeyboardInterrupt
        seen.append(step)
        update_average(average, model, decay, step)

    monkeypatch.setattr(steps, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(steps, "LOG_EVERY", 4)
    monkeypatch.setattr(steps, "update_average", lambda *given: watched(*given, last=9))
    with pytest.raises(KeyboardInterrupt):
        plugin_world.without("retrain", tmp_path / "out")
    assert seen == list(range(10)) and not (tmp_path / "out").exists()
    assert (tmp_path / ".out.training" / "state.safetensors").is_file()
    with pytest.raises(
        CheckpointError, match="an unfinished run of another recipe, data or seed is there"
    ):
        plugin_world.without("retrain", tmp_path / "out", seed=1)
    seen.clear()
    monkeypatch.setattr(steps, "update_average", lambda *given: watched(*given, last=99))
    again = plugin_world.without("retrain", tmp_path / "out")
    assert seen == [10, 11]
    assert same(again, retrained)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_unfinished_run_can_be_dropped(
    plugin_world: PluginWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / ".out.training" / "state.safetensors"
    state.parent.mkdir()
    state.write_bytes(b"of something else")
    with pytest.raises(CheckpointError, match="`restart`"):
        plugin_world.without("retrain", tmp_path / "out")
    assert plugin_world.without("retrain", tmp_path / "out", restart=True).path == tmp_path / "out"
