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
from unplug.sdk.forgetting.tasks import task_of
from unplug.sdk.learning.data import read_forget_file

from .conftest import CPU, PluginWorld, build_base

GONE = object()


def edited(world: PluginWorld, folder: Path, path: str, value: Any) -> Checkpoint:
    """A copy of the original whose record says something else at a place, or nothing."""
    shutil.copytree(world.original.path, folder)
    record = json.loads((folder / "unplug.json").read_text())
    part, (*above, last) = record, path.split(".")
    for key in above:
        part = part[key]
    if value is GONE:
        del part[last]
    else:
        part[last] = value
    (folder / "unplug.json").write_text(json.dumps(record))
    return load_checkpoint(folder)


@pytest.mark.parametrize(
    ("path", "value", "lacks"),
    [
        ("base", GONE, "base.name, base.sha256"),
        ("base.sha256", GONE, "base.sha256"),
        ("base", "small", "base.name, base.sha256"),
        ("condition.kind", GONE, "condition.kind"),
        ("condition", GONE, "condition.kind, condition.settings, condition.identity"),
        *((key, GONE, key) for key in ("captions", "recipe", "seed")),
    ],
)
def test_a_record_that_lacks_something(
    plugin_world: PluginWorld, tmp_path: Path, path: str, value: Any, lacks: str
) -> None:
    why = f"its unplug.json says no {lacks}, so it cannot be trained again"
    with pytest.raises(CheckpointError, match=why):
        task_of(edited(plugin_world, tmp_path / "p", path, value), device=CPU)


def test_another_base_is_refused(plugin_world: PluginWorld, tmp_path: Path) -> None:
    build_base(tmp_path / "other", seed=6)
    why = r"not the base that plugin original was trained with.*Pass `base`"
    with pytest.raises(CheckpointError, match=why):
        task_of(plugin_world.original, device=CPU, base=str(tmp_path / "other"))


@pytest.mark.long
def test_a_base_that_moved(plugin_world: PluginWorld, tmp_path: Path) -> None:
    moved = edited(plugin_world, tmp_path / "p", "base.name", str(tmp_path / "gone"))
    why = r"the base of plugin p cannot be opened there.*Pass `base`"
    with pytest.raises(CheckpointError, match=why):
        task_of(moved, device=CPU)
    with pytest.raises(CheckpointError, match="no such folder") as caught:
        task_of(moved, device=CPU, base=str(tmp_path / "nowhere"))
    assert "Pass `base`" not in str(caught.value)  # it was passed
    done = plugin_world.finetuned(tmp_path / "out", original=moved, base=str(plugin_world.base))
    assert done.record["base"]["sha256"] == plugin_world.original.record["base"]["sha256"]


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("base.sha256", "0" * 64, "another base than the original"),
        ("condition.identity.kind", "depth", "another condition than the original"),
        ("condition.identity.settings.low", 9.0, "another condition than the original"),
        ("condition.identity.version", 0, "another condition than the original"),
        ("captions", "0" * 64, "other captions than the original"),
        ("condition.identity.versions.pillow", "1.0", None),  # another Pillow draws the same
    ],
)
def test_an_oracle_of_another_base_or_condition_is_refused(
    plugin_world: PluginWorld, tmp_path: Path, path: str, value: Any, why: str | None
) -> None:
    other = edited(plugin_world, tmp_path / "p", path, value)
    if why is None:
        plugin_world.task.check_twin(other)
        return
    with pytest.raises(CheckpointError, match=why):
        plugin_world.task.check_twin(other)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (
            "condition.identity.settings.low",
            90.0,
            r"condition canny: low is 100\.0 here and was 90",
        ),
        ("condition.settings.low", "90", r"low is 90\.0 here and was 100\.0 when"),
        ("condition.identity.version", 7, r"version is 1 here and was 7 .*Use the unplug"),
        ("condition.identity.settings.task", "sha256:abc", r"task is None here.* Name the same"),
    ],
)
def test_conditions_that_would_be_drawn_otherwise_are_refused(
    plugin_world: PluginWorld, tmp_path: Path, path: str, value: Any, why: str
) -> None:
    """Before anything is loaded or drawn: the plugin would be judged on pictures that it never saw."""
    task = task_of(edited(plugin_world, tmp_path / "p", path, value), device=CPU)
    with pytest.raises(InputError, match=why):
        task.sets(plugin_world.dataset, plugin_world.split, CPU)


def test_captions_that_changed_are_refused(
    plugin_world: PluginWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pixels' digest does not tell them."""
    words = control_set.captions_of

    def new(*given: Any, **how: Any) -> Any:
        return [("new", *captions[1:]) for captions in words(*given, **how)]

    monkeypatch.setattr(control_set, "captions_of", new)
    why = "its captions are not those that the plugin was trained with"
    with pytest.raises(DataError, match=why):
        plugin_world.task.sets(plugin_world.dataset, plugin_world.split, CPU)


def test_a_checkpoint_of_no_kind() -> None:
    odd = Checkpoint(path=Path("odd"), model_type="encoder", model=None, sha256="")
    why = r"models of type encoder cannot be forgotten with.*Use one of age, classes, plugin"
    with pytest.raises(CheckpointError, match=why):
        task_of(odd, device=CPU)


def test_subjects_are_forgotten_whole(plugin_world: PluginWorld) -> None:
    ids = read_forget_file(plugin_world.forget_file, plugin_world.dataset)
    assert sorted(ids) == sorted(plugin_world.forget_ids)
    gone, kept = (
        set(part.subject_N.tolist()) for part in (plugin_world.sets.forget, plugin_world.sets.train)
    )
    assert len(gone) == 5 and not kept & gone


@pytest.fixture
def unseen_by_canny(
    plugin_world: PluginWorld, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Collection[str]], None]:
    """Lets the condition not be found in some samples."""
    drawn = exact.conditions_in_worker

    def hide(ids: Collection[str]) -> None:
        left_N = np.array([name not in ids for name in plugin_world.dataset.ids])

        def hiding(*given: Any, **more: Any) -> Any:
            rows_NHWC, found_N = drawn(*given, **more)
            return rows_NHWC, left_N & found_N

        monkeypatch.setattr(exact, "conditions_in_worker", hiding)

    return hide


@pytest.mark.long
def test_samples_without_the_condition_were_never_trained_on(
    plugin_world: PluginWorld, tmp_path: Path, unseen_by_canny: Callable[[Collection[str]], None]
) -> None:
    unseen_by_canny(plugin_world.forget_ids[:4])
    record = plugin_world.finetuned(tmp_path / "out").record
    assert record["forget"]["samples"] == len(plugin_world.forget_ids) == 10  # what was asked for
    assert record["metrics"]["forget"]["n"] == 6  # what the plugin knew of it
    assert record["metrics"]["retain"]["n"] == 18


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (
            "forget",
            r"forget set: canny was found in none of its 10 samples.*There is nothing to forget",
        ),
        ("test", "test set: canny was found in none of its 12 samples"),
    ],
)
def test_a_set_without_the_condition(
    plugin_world: PluginWorld,
    unseen_by_canny: Callable[[Collection[str]], None],
    part: str,
    why: str,
) -> None:
    unseen_by_canny(getattr(plugin_world.request, part))
    with pytest.raises(DataError, match=why):
        plugin_world.task.sets(plugin_world.dataset, plugin_world.request, CPU)


def test_one_sample_left_supports_no_audit(
    plugin_world: PluginWorld, unseen_by_canny: Callable[[Collection[str]], None]
) -> None:
    world = plugin_world
    unseen_by_canny(world.forget_ids[1:])
    sets = world.task.sets(world.dataset, world.request, CPU)
    model = CheckpointPredictor(
        name="original", role="original", checkpoint=world.original, task=world.task
    )
    with pytest.raises(DataError, match="1 forget samples support no interval"):
        audit([model], sets, world.request, edges=world.task.edges, data={}, show=False)
