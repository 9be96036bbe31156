"""Requests that fit a plugin and requests that do not: bases, records, conditions that were not
found, people.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import CheckpointError, DataError, InputError
from unplug.plugins import Checkpoint, load_checkpoint
from unplug.sdk.drawing.conditions import exact
from unplug.sdk.drawing.diffusion import control_set
from unplug.sdk.evidence.auditing import CheckpointPredictor, audit
from unplug.sdk.forgetting.tasks import TASKS, task_of
from unplug.sdk.forgetting.unlearning import forget
from unplug.sdk.learning.data import read_forget_file

from ...conftest import World
from .conftest import CPU, PluginWorld, build_base

Edit = Callable[[dict[str, Any]], object]


def edited(world: PluginWorld, folder: Path, edit: Edit) -> Checkpoint:
    """A copy of the original whose record was changed."""
    shutil.copytree(world.original.path, folder)
    record = json.loads((folder / "unplug.json").read_text())
    edit(record)
    (folder / "unplug.json").write_text(json.dumps(record))
    return load_checkpoint(folder)


@pytest.mark.long
def test_kinds_are_those_of_the_checkpoints(plugin_world: PluginWorld, world: World) -> None:
    assert tuple(TASKS) == ("age", "plugin")
    assert task_of(world.original, device=CPU).unit == "years"
    assert plugin_world.task.unit == "loss" and plugin_world.task.image_size == 32


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda record: [record.pop(key) for key in tuple(record) if key != "weights_sha256"],
            "base.name, base.sha256, condition.kind, condition.settings, condition.identity, "
            "captions, parameters",
        ),
        (lambda record: record.pop("base"), "base.name, base.sha256"),
        (lambda record: record["base"].pop("sha256"), "base.sha256"),
        (lambda record: record.update(base="small"), "base.name, base.sha256"),
        (lambda record: record["condition"].pop("kind"), "condition.kind"),
        (lambda record: record.pop("recipe"), "recipe"),
        (lambda record: record.pop("seed"), "seed"),
    ],
)
def test_a_record_that_lacks_something(
    plugin_world: PluginWorld, tmp_path: Path, edit: Edit, said: str
) -> None:
    found = edited(plugin_world, tmp_path / "p", edit)
    with pytest.raises(
        CheckpointError, match=f"its unplug.json says no {said}.*so it cannot be trained again"
    ):
        task_of(found, device=CPU)


def test_a_recipe_of_another_kind(plugin_world: PluginWorld, tmp_path: Path) -> None:
    found = edited(plugin_world, tmp_path / "p", lambda record: record["recipe"].update(epochs=3))
    with pytest.raises(InputError, match="not one that this version of unplug wrote"):
        task_of(found, device=CPU)


def test_another_base_is_refused(plugin_world: PluginWorld, tmp_path: Path) -> None:
    build_base(tmp_path / "other", seed=6)
    with pytest.raises(
        CheckpointError, match=r"not the base that plugin original was trained beside.*Pass `base`"
    ):
        task_of(plugin_world.original, device=CPU, base=str(tmp_path / "other"))


@pytest.mark.long
def test_a_base_that_moved(plugin_world: PluginWorld, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    found = edited(plugin_world, tmp_path / "p", lambda record: record["base"].update(name=gone))
    with pytest.raises(
        CheckpointError, match=r"the base of plugin p cannot be opened there.*Pass `base`"
    ):
        task_of(found, device=CPU)
    with pytest.raises(CheckpointError, match="no such folder") as caught:
        task_of(found, device=CPU, base=str(tmp_path / "nowhere"))
    assert "Pass `base`" not in str(caught.value)  # it was passed
    done = forget(
        found,
        plugin_world.dataset,
        plugin_world.forget_ids,
        "neggrad",
        tmp_path / "out",
        budget=0.9,
        options={"batch_size": "4"},
        base=str(plugin_world.base),
        device=CPU,
        show=False,
    )
    assert done.record["base"]["sha256"] == plugin_world.original.record["base"]["sha256"]


def test_an_age_predictor_has_no_base(world: World, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="`base=small`: an age predictor has none"):
        forget(
            world.original,
            world.dataset,
            world.forget_ids,
            "finetune",
            tmp_path / "out",
            base="small",
            device=CPU,
            show=False,
        )
    assert not (tmp_path / "out").exists()


def test_an_oracle_of_another_base_or_condition_is_refused(
    plugin_world: PluginWorld, tmp_path: Path
) -> None:
    for name, edit, why in (
        (
            "base",
            lambda record: record["base"].update(sha256="0" * 64),
            "another base than the original",
        ),
        (
            "kind",
            lambda record: made_of(record).update(kind="depth"),
            "another condition than the original",
        ),
        (
            "low",
            lambda record: made_of(record)["settings"].update(low=9.0),
            "another condition than the original",
        ),
        (
            "drawing",
            lambda record: made_of(record).update(version=0),
            "another condition than the original",
        ),
        (
            "words",
            lambda record: record.update(captions="0" * 64),
            "other captions than the original",
        ),
    ):
        with pytest.raises(CheckpointError, match=why):
            plugin_world.task.check_twin(edited(plugin_world, tmp_path / name, edit))
    plugin_world.task.check_twin(plugin_world.original)
    older = edited(
        plugin_world,
        tmp_path / "older",
        lambda record: made_of(record)["versions"].update(pillow="1.0"),
    )
    plugin_world.task.check_twin(older)  # another Pillow draws the same


def made_of(record: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = record["condition"]["identity"]
    return found


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            lambda record: made_of(record)["settings"].update(low=90.0),
            r"condition canny: low is 100\.0 here and was 90",
        ),
        (
            lambda record: record["condition"]["settings"].update(low="90"),
            r"low is 90\.0 here and was 100\.0 when",
        ),
        (
            lambda record: made_of(record).update(version=7),
            r"version is 1 here and was 7 .*Use the unplug",
        ),
        (
            lambda record: made_of(record)["settings"].update(task="sha256:abc"),
            r"task is None here.* Name the same file",
        ),
    ],
)
def test_conditions_that_would_be_drawn_otherwise_are_refused(
    plugin_world: PluginWorld, tmp_path: Path, edit: Edit, said: str
) -> None:
    """Before anything is loaded or drawn: the plugin would be judged on pictures that it never saw."""
    found = task_of(edited(plugin_world, tmp_path / "p", edit), device=CPU)
    with pytest.raises(InputError, match=said):
        found.sets(plugin_world.dataset, plugin_world.split, CPU)


def test_captions_that_changed_are_refused(
    plugin_world: PluginWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pixels' digest does not tell them."""
    words = control_set.captions_of
    monkeypatch.setattr(
        control_set,
        "captions_of",
        lambda *given, **how: [("new", *own[1:]) for own in words(*given, **how)],
    )
    with pytest.raises(
        DataError, match="its captions are not those that the plugin was trained with"
    ):
        plugin_world.task.sets(plugin_world.dataset, plugin_world.split, CPU)


def test_a_checkpoint_of_no_kind(plugin_world: PluginWorld) -> None:
    odd = Checkpoint(path=Path("odd"), model_type="encoder", model=None, sha256="")
    with pytest.raises(
        CheckpointError,
        match=r"models of type encoder cannot be forgotten with.*Use one of age, plugin",
    ):
        task_of(odd, device=CPU)


def test_subjects_are_forgotten_whole(plugin_world: PluginWorld) -> None:
    ids = read_forget_file(plugin_world.forget_file, plugin_world.dataset)
    assert sorted(ids) == sorted(plugin_world.forget_ids)
    people = {sample.subject for sample in plugin_world.dataset.samples if sample.id in ids}
    assert len(people) == len(np.unique(plugin_world.sets.forget.subject_N)) == 5
    kept = set(plugin_world.sets.train.subject_N.tolist())
    assert not kept & set(plugin_world.sets.forget.subject_N.tolist())


@pytest.fixture
def unseen_by_canny(
    plugin_world: PluginWorld, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Collection[str]], None]:
    """Lets the condition not be found in some samples."""

    def hide(ids: Collection[str]) -> None:
        drawn = exact.conditions_in_worker

        def hiding(*given: Any, **more: Any) -> Any:
            rows_NHWC, found_N = drawn(*given, **more)
            return rows_NHWC, np.array(
                [name not in ids for name in plugin_world.dataset.ids]
            ) & found_N

        monkeypatch.setattr(exact, "conditions_in_worker", hiding)

    return hide


@pytest.mark.long
def test_samples_without_the_condition_were_never_trained_on(
    plugin_world: PluginWorld, tmp_path: Path, unseen_by_canny: Callable[[Collection[str]], None]
) -> None:
    ids = plugin_world.forget_ids
    unseen_by_canny(ids[:4])
    done = forget(
        plugin_world.original,
        plugin_world.dataset,
        ids,
        "finetune",
        tmp_path / "out",
        budget=0.9,
        options={"batch_size": "4"},
        device=CPU,
        show=False,
    )
    assert done.record["forget"]["samples"] == len(ids) == 10  # what was asked for
    assert done.record["metrics"]["forget"]["n"] == 6  # what the plugin knew of it
    assert done.record["metrics"]["retain"]["n"] == 18


def test_a_request_for_nothing_that_was_trained_on(
    plugin_world: PluginWorld, tmp_path: Path, unseen_by_canny: Callable[[Collection[str]], None]
) -> None:
    unseen_by_canny(plugin_world.forget_ids)
    with pytest.raises(
        DataError,
        match=r"forget set: canny was found in none of its 10 samples.*There is nothing to forget",
    ):
        forget(
            plugin_world.original,
            plugin_world.dataset,
            plugin_world.forget_ids,
            "finetune",
            tmp_path / "out",
            device=CPU,
            show=False,
        )
    assert not (tmp_path / "out").exists()


def test_a_test_set_without_the_condition(
    plugin_world: PluginWorld, unseen_by_canny: Callable[[Collection[str]], None]
) -> None:
    unseen_by_canny(plugin_world.split.test)
    with pytest.raises(DataError, match="test set: canny was found in none of its 12 samples"):
        plugin_world.task.sets(
            plugin_world.dataset, plugin_world.split.with_forget(plugin_world.forget_ids), CPU
        )


def test_one_sample_left_supports_no_audit(
    plugin_world: PluginWorld, unseen_by_canny: Callable[[Collection[str]], None]
) -> None:
    unseen_by_canny(plugin_world.forget_ids[1:])
    split = plugin_world.split.with_forget(plugin_world.forget_ids)
    sets = plugin_world.task.sets(plugin_world.dataset, split, CPU)
    model = CheckpointPredictor(
        name="original", role="original", checkpoint=plugin_world.original, task=plugin_world.task
    )
    with pytest.raises(DataError, match="1 forget samples support no interval"):
        audit([model], sets, split, edges=plugin_world.task.edges, data={}, show=False)
