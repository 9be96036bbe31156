"""Errors in the task, of files beside their checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from unplug.core import InputError
from unplug.export import Artifact
from unplug.sdk.auditing import task_deltas
from unplug.sdk.cli import main
from unplug.sdk.data import load_dataset
from unplug.sdk.training import predict

from ..conftest import World

FILE = "age.fp32.tflite"


def test_a_float_file_errs_as_its_checkpoint_does(world: World, artifacts: dict[str, Artifact]) -> None:
    (row,) = task_deltas(world.unlearned, world.dataset, [artifacts[FILE]], most=10**6)
    own = predict(world.unlearned.model, world.sets.test)
    assert (row.file, row.unit, row.samples) == (FILE, "years", len(world.sets.test))
    assert row.checkpoint_error == pytest.approx(own.error_N.mean()) == pytest.approx(row.error, abs=1e-3)
    assert abs(row.delta) < 1e-3 and row.delta == pytest.approx(row.error - row.checkpoint_error, abs=1e-9)
    assert row.low is not None and row.high is not None and row.low <= row.delta <= row.high


def test_a_worse_file_is_told_by_its_interval(world: World, artifacts: dict[str, Artifact]) -> None:
    """A file of the unlearned model against the oracle: the mean of differences, sample by sample."""
    (row,) = task_deltas(world.oracle, world.dataset, [artifacts[FILE]], most=10**6)
    one, other = predict(world.unlearned.model, world.sets.test), predict(world.oracle.model, world.sets.test)
    assert row.delta == pytest.approx(np.mean(one.error_N - other.error_N), abs=1e-3) and abs(row.delta) > 0.01


def test_few_samples_are_the_first_of_the_test_set(world: World, artifacts: dict[str, Artifact]) -> None:
    (row,) = task_deltas(world.unlearned, world.dataset, [artifacts[FILE]], most=7)
    own = predict(world.unlearned.model, world.sets.test)
    assert row.samples == 7 and row.checkpoint_error == pytest.approx(own.error_N[:7].mean())


def test_other_data_knows_no_test_set(world: World, artifacts: dict[str, Artifact]) -> None:
    other = load_dataset("synth:n=30,subjects=30,seed=9", 32, show=False)
    with pytest.raises(InputError, match="not what the model was trained on"):
        task_deltas(world.unlearned, other, [artifacts[FILE]], most=5)


@pytest.mark.long
def test_the_command(world: World, artifacts: dict[str, Artifact], tmp_path: Path) -> None:
    words = ["parity", str(artifacts[FILE].path), "--checkpoint", str(world.unlearned.path), "--task", "12"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and "--task: there are no samples with labels" in done.stderr
    data = ["--data", world.spec, "--out", str(tmp_path / "parity.json")]
    done = CliRunner().invoke(main, [*words, *data, "--json"])
    assert done.exit_code == 0, done.stderr
    (row,) = json.loads(done.stdout)["task"]
    assert row["samples"] == 12 and json.loads((tmp_path / "parity.json").read_text())["task"] == [row]
    assert "12 test samples; the checkpoint: " in CliRunner().invoke(main, [*words, *data]).stdout
