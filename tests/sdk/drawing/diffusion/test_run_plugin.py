"""Training a plugin: from pictures and words to a checkpoint, killed and continued to the same
bytes.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from unplug.core import CheckpointError, DataError, InputError, OutputError
from unplug.plugins import (
    CHECKPOINT_FILES,
    Checkpoint,
    ConditioningPlugin,
    load_checkpoint,
    save_checkpoint,
)
from unplug.plugins.checkpoint import DIFFUSERS_WEIGHTS
from unplug.plugins.conditions import EXACT, Canny, FaceLandmark, grey, identity
from unplug.sdk.drawing.conditions import exact as exact_module
from unplug.sdk.drawing.conditions import real_inputs
from unplug.sdk.drawing.diffusion import (
    CONTROLS,
    ControlRecipe,
    base_digest,
    load_control_set,
    losses,
    steps,
    train_plugin,
)
from unplug.sdk.drawing.diffusion import control_set as control_set_module
from unplug.sdk.drawing.diffusion import run_plugin as module
from unplug.sdk.drawing.diffusion.control_set import ControlDraws
from unplug.sdk.drawing.diffusion.measure import level_mean
from unplug.sdk.drawing.diffusion.run_plugin import previews
from unplug.sdk.drawing.diffusion.shipped import Sampling
from unplug.sdk.learning.data import (
    Dataset,
    Split,
    captions_digest,
    captions_of,
    make_split,
    parse_spec,
)
from unplug.sdk.learning.faces.depth import REVISION, depth_map

from .conftest import CPU, SIZE, Killed, kill_after, steering_plugin

RECIPE = ControlRecipe(steps=4, batch_size=2, warmup=1, lr=0.01, precision="fp32")
Run = Callable[..., Checkpoint]


def hasten(patch: pytest.MonkeyPatch) -> None:
    """A state after every step, previews of one picture in one step."""
    draw = module.generate
    patch.setattr(module, "generate", lambda *given, **how: draw(*given, **how | {"steps": 1}))
    patch.setattr(module, "PREVIEWS", 1)
    patch.setattr(steps, "SAVE_EVERY_S", 0.0)
    patch.setattr(steps, "LOG_EVERY", 1)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    hasten(monkeypatch)
    monkeypatch.setattr(module, "mean_loss", lambda *_, **__: 0.5)


@pytest.fixture(scope="module")
def split(faces: Dataset) -> Split:
    return make_split(faces, seed=0, validation=0.2, test=0.2)


@pytest.fixture(scope="module")
def run(base: Any, faces: Dataset, split: Split) -> Run:
    def train(out: Path, **more: Any) -> Checkpoint:
        given = {
            "dataset": faces,
            "split": split,
            "recipe": RECIPE,
            "seed": 1,
            "sample_every": 2,
        } | more
        return train_plugin(base, "tiny", kind="canny", out=out, device=CPU, show=False, **given)

    return train


@pytest.fixture(scope="module")
def whole(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """Trained in one go."""
    with pytest.MonkeyPatch.context() as patch:
        hasten(patch)
        return run(tmp_path_factory.mktemp("whole") / "plugin")


@pytest.mark.long
def test_a_checkpoint_with_its_record(
    whole: Checkpoint, base: Any, faces: Dataset, split: Split
) -> None:
    made = whole
    assert {path.name for path in made.path.iterdir()} <= set(CHECKPOINT_FILES) and not list(
        made.path.parent.glob(".*")
    )
    record, model = made.record, made.model
    assert (
        record["base"] == {"name": "tiny", "sha256": base_digest(base)}
        and record["role"] == "original"
    )
    made_of = {"kind": "canny", "settings": {}, "identity": identity(Canny()), "without": 0}
    assert record["condition"] == made_of and model.config.condition == "canny"
    assert record["captions"] == captions_digest(
        captions_of(faces, seed=1, variants=RECIPE.captions)
    )
    assert record["cost"]["forward"] == 4 * 2 and record["cost"]["processes"] == 1
    assert [row["step"] for row in record["history"]] == [1, 2, 3, 4]
    assert Split.from_dict(record["split"]) == split and model.iospec.inputs[0].shape == (
        1,
        3,
        SIZE,
        SIZE,
    )
    data, _ = load_control_set(base, faces, "canny", captions=2, seed=1, show=False)
    for name, ids in (
        ("train", split.train),
        ("validation", split.validation),
        ("test", split.test),
    ):
        table = losses(CONTROLS.get("plugin")(), model, base, data.subset(ids), device=CPU)
        assert record["metrics"][name]["n"] == len(ids)
        assert record["metrics"][name]["loss"] == pytest.approx(
            float(level_mean(table, base, "velocity").mean()), rel=1e-4
        )
    card = (made.path / "README.md").read_text()
    assert (
        f"{record['parameters']:,} parameters" in card and "StableDiffusionAdapterPipeline" in card
    )


@pytest.mark.long
def test_killed_it_goes_on(
    run: Run, whole: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And another run does not go on in its place; other words are one, which the pixels' digest
    does not tell.
    """
    with monkeypatch.context() as patch:
        kill_after(patch, ControlDraws, 3)
        with pytest.raises(Killed):
            run(tmp_path / "plugin")
    names = {path.name for path in (tmp_path / ".plugin.training").glob("*")}
    assert names == {"state.safetensors", "sample-0000002.png"}
    why = "an unfinished run of another recipe, data or seed"
    for more in ({"recipe": replace(RECIPE, lr=0.02)}, {"seed": 2}, {"options": {"low": "50"}}):
        with pytest.raises(CheckpointError, match=why):
            run(tmp_path / "plugin", **more)
    with monkeypatch.context() as patch:
        patch.setattr(control_set_module, "captions_of", lambda data, **_: [("a box",)] * len(data))
        with pytest.raises(CheckpointError, match=why):
            run(tmp_path / "plugin")
    done = run(tmp_path / "plugin")
    assert load_checkpoint(done.path).sha256 == done.sha256 == whole.sha256


def test_refused_places_splits_and_batches(
    run: Run, tmp_path: Path, split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("years of work")
    with pytest.raises(OutputError, match=r"it holds thesis.txt"):
        run(tmp_path / "notes")
    with pytest.raises(DataError, match="the split was made from other data"):
        run(tmp_path / "plugin", split=replace(split, data_digest="x", rows=()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes"]
    monkeypatch.setattr(module, "processes", lambda _: Team(0, []))
    with pytest.raises(InputError, match=r"batch_size 3: it does not divide among 2 process"):
        run(tmp_path / "plugin", recipe=replace(RECIPE, batch_size=3))
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


class Team:
    """Two processes as accelerate shows them to one of them; says in which order things happen."""

    def __init__(self, index: int, said: list[str]) -> None:
        self.process_index, self.is_main_process, self.num_processes, self.said = (
            index,
            index == 0,
            2,
            said,
        )

    def main_process_first(self) -> Any:
        self.said.append("first")
        return self

    def __enter__(self) -> None:
        self.said.append("enter")

    def __exit__(self, *_: object) -> None:
        self.said.append("leave")

    def wait_for_everyone(self) -> None:
        self.said.append("wait")


def test_the_record_names_no_place(
    base: Any, faces: Dataset, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task file by its hash: another machine has it elsewhere."""
    (tmp_path / "secret").mkdir()
    task = tmp_path / "secret/face.task"
    task.write_bytes(b"\xfflandmarks")
    draw = exact_module.conditions_in_worker

    def edges(kind: str, options: Any, *given: Any, **how: Any) -> Any:
        return draw("canny", {}, *given, **how)

    monkeypatch.setattr(exact_module, "conditions_in_worker", edges)
    options = {"task": str(task), "faces": "largest"}
    how: dict[str, Any] = {"seed": 1, "device": CPU, "sample_every": 0, "show": False}
    place, once = tmp_path / "plugin", replace(RECIPE, steps=1)
    done = train_plugin(
        base, "tiny", faces, split, "face_landmark", place, once, options=options, **how
    )
    condition = done.record["condition"]
    assert condition["settings"] == {"faces": "largest"}
    assert condition["identity"] == identity(FaceLandmark(task=str(task), faces="largest"))
    assert "secret" not in (done.path / "unplug.json").read_text()


def test_a_plugin_lists_whom_its_start_had_learned(
    run: Run, whole: Checkpoint, tmp_path: Path
) -> None:
    further = run(tmp_path / "further", start=whole).record
    assert further["earlier"] == [whole.record["split"]] and whole.record["earlier"] == []


def test_the_state_goes_after_reading(
    run: Run, whole: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(model: Any, path: Path, **how: Any) -> None:
        save_checkpoint(model, path, **how)
        (path / DIFFUSERS_WEIGHTS).write_bytes(b"\xffthe disk did this")

    with monkeypatch.context() as patch:
        patch.setattr(module, "save_checkpoint", spoil)
        with pytest.raises(CheckpointError, match="not a whole safetensors file"):
            run(tmp_path / "plugin")
    assert (tmp_path / ".plugin.training" / "state.safetensors").is_file()
    monkeypatch.setattr(ControlDraws, "__call__", lambda *_: pytest.fail("it was trained again"))
    assert (
        run(tmp_path / "plugin").sha256 == whole.sha256
        and not (tmp_path / ".plugin.training").exists()
    )


def test_only_the_first_process_writes(
    run: Run, whole: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = list[str]()
    shutil.copytree(whole.path, tmp_path / "plugin")
    (tmp_path / ".plugin.training").mkdir()
    monkeypatch.setattr(module, "processes", lambda _: Team(1, calls))
    for writes in ("save_checkpoint", "check_place"):
        monkeypatch.setattr(
            module, writes, lambda *_, **__: pytest.fail("the second process wrote")
        )
    monkeypatch.setattr(
        module, "mean_loss", lambda *_, **__: pytest.fail("the second process measured")
    )
    fit = module.fit_control
    monkeypatch.setattr(
        module, "fit_control", lambda *given, **how: fit(*given, **how | {"state_path": None})
    )
    assert run(tmp_path / "plugin", restart=True).sha256 == whole.sha256
    assert calls == ["first", "enter", "leave", "wait"] and (tmp_path / ".plugin.training").is_dir()


def test_previews_show_all_three(
    base: Any, control_set: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PREVIEWS", 2)
    asked: list[Any] = []
    draw = module.generate

    def drawn(pipe: Any, *given: Any, **how: Any) -> Any:
        asked.append((type(pipe).__name__, how["guidance"], how["seeds"]))
        return draw(pipe, *given, **how)

    monkeypatch.setattr(module, "generate", drawn)
    plugin, data = steering_plugin(base.unet), control_set.subset(control_set.ids[:3])
    how = Sampling(steps=1, guidance=2.0, solver=None)
    preview = previews(CONTROLS.get("plugin")(), base, data, seed=3, how=how, folder=tmp_path)
    sheets = []
    for step in (6, 7):
        preview(plugin, step)
        sheets.append(np.asarray(Image.open(tmp_path / f"sample-000000{step}.png")))
    assert np.array_equal(*sheets)
    adapter = ("StableDiffusionAdapterPipeline", 2.0, [3, 4])
    # the base's once
    assert sorted(asked) == sorted([("StableDiffusionPipeline", 2.0, [3, 4]), adapter, adapter])
    left, cell = sheets[0].shape[1] - 2 * (SIZE + 4), SIZE + 4
    for column in (0, 1):
        condition, bare, steered = (
            sheets[0][4 + row * cell :, left + column * cell :][:SIZE, :SIZE] for row in range(3)
        )
        assert np.array_equal(condition, control_set.condition[control_set.rows[column]])
        assert not np.array_equal(bare, steered)


def test_half_is_stored_as_measured(
    run: Run, whole: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[torch.nn.Module] = []
    monkeypatch.setattr(
        module,
        "mean_loss",
        lambda _, network, *__, **___: measured.append(copy.deepcopy(network)) or 0.5,
    )
    small = run(tmp_path / "plugin", half=True)
    size = (small.path / DIFFUSERS_WEIGHTS).stat().st_size
    assert size < 0.6 * (whole.path / DIFFUSERS_WEIGHTS).stat().st_size
    pairs = zip(small.model.state_dict().items(), whole.model.state_dict().values(), strict=True)
    for (name, value), exact in pairs:
        assert value.dtype == exact.dtype and torch.equal(value, exact.half().to(exact.dtype)), name
        assert torch.equal(value, measured[0].state_dict()[name])
    again = ConditioningPlugin.from_pretrained(small.path)
    assert all(
        torch.equal(value, again.state_dict()[name])
        for name, value in small.model.state_dict().items()
    )
    assert {value.dtype for value in again.parameters()} == {torch.float32}


def test_a_depth_plugin_of_drawn_faces_is_trained_on_their_exact_depth(
    base: Any, faces: Dataset, split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its record says so; a forget step or a calibration later takes the same, whatever model
    the environment names.
    """
    monkeypatch.delenv("UNPLUG_DEPTH_MODEL", raising=False)
    how: dict[str, Any] = {"seed": 1, "device": CPU, "sample_every": 0, "show": False}
    once = replace(RECIPE, steps=1)
    done = train_plugin(base, "tiny", faces, split, "depth", tmp_path / "plugin", once, **how)
    named = {"model": EXACT, "revision": str(REVISION)}
    condition = done.record["condition"]
    assert condition["settings"] == condition["identity"]["settings"] == named
    assert condition["without"] == 0
    monkeypatch.setenv("UNPLUG_DEPTH_MODEL", "no/network")
    data, _ = load_control_set(base, faces, "depth", condition["settings"], seed=1, show=False)
    place = faces.ids.index(data.ids[3])
    exact = grey(depth_map(parse_spec(faces.spec).params(place), SIZE))  # type: ignore[attr-defined]
    assert np.array_equal(data.condition[data.rows[3]], exact)
    held = real_inputs(done, faces, 100, part="test")["condition"]
    wanted = data.condition[data.subset(split.test).rows].transpose(0, 3, 1, 2) / np.float32(255)
    assert sorted(one.tobytes() for one in held) == sorted(one.tobytes() for one in wanted)
