"""`unplug forget`, `audit`, `release`, `bundle verify` and `report` on a plugin, as a user types
them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.plugins import load_checkpoint
from unplug.sdk.cli import main
from unplug.trust.bundle import bundle

from ...conftest import World
from .conftest import SPEC, PluginWorld

OPEN = (
    "max_auc_above_retrained=1",
    "max_auc_below_retrained=1",
    "max_loss_above_retrained=10",
    "max_artifact_auc_shift=0.1",
)
"""Gates that a plugin of a dozen steps passes."""


def call(*words: object, code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*map(str, words), "--json", "--device", "cpu"])
    assert done.exit_code == code, done.stderr
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def says(*words: object) -> str:
    done = CliRunner().invoke(main, [*map(str, words), "--device", "cpu"])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def request(world: PluginWorld) -> tuple[object, ...]:
    return ("--data", SPEC, "--forget", world.forget_file)


STEP = ("--method", "finetune", "--set", "batch_size=4", "--budget", "0.9")


@pytest.fixture(scope="module")
def models(plugin_world: PluginWorld, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `retrained` and `unlearned`."""
    root = tmp_path_factory.mktemp("cli")
    start = ("forget", plugin_world.original.path, *request(plugin_world))
    call(*start, "--method", "retrain", "--out", root / "retrained", "--seed", "3")
    call(*start, *STEP, "--retrained", root / "retrained", "--out", root / "unlearned")
    return root


@pytest.mark.long
def test_forget_says_losses_and_what_to_do_next(plugin_world: PluginWorld, tmp_path: Path) -> None:
    base = ("--base", plugin_world.base)
    text = says(
        "forget",
        plugin_world.original.path,
        *request(plugin_world),
        *STEP,
        *base,
        "--out",
        tmp_path / "out",
    )
    lines = text.splitlines()
    assert lines[0].startswith(f"saved {tmp_path / 'out'}: 10 samples forgotten by finetune in ")
    # behind sentences of any length
    start = next(number for number, line in enumerate(lines) if line.startswith("forget "))
    *rows, last = lines[start : start + 4]
    assert [line.split()[:3] for line in rows] == [
        ["forget", "10", "samples"],
        ["retain", "18", "samples"],
        ["test", "12", "samples"],
    ]
    assert all("velocity loss" in line and "without the plugin)" in line for line in rows)
    assert last.startswith("Next: unplug audit ") and f"--base {plugin_world.base}" in last
    assert "years" not in text and "MAE" not in text


@pytest.mark.long
def test_the_record_and_the_card(plugin_world: PluginWorld, models: Path) -> None:
    found = load_checkpoint(models / "unlearned", expect="plugin")
    assert found.record["role"] == "unlearned" and found.record["schema"] == "unplug-plugin/1"
    assert found.record["forget"]["memory"]["estimate"]["total"] > 10**6
    assert found.record["forget"]["cost"]["retrain"]["recorded_wall_s"] > 0
    assert set(found.record["metrics"]["test"]) == {"n", "loss", "loss_without_plugin"}
    card = (models / "unlearned" / "README.md").read_text()
    assert "Forgotten: 10 samples by `finetune`" in card and "canny, 32 px (unlearned)" in card
    found.model.check_base(plugin_world.pipe.unet)


@pytest.mark.long
def test_audit_prints_losses(plugin_world: PluginWorld, models: Path, tmp_path: Path) -> None:
    text = says(
        "audit",
        models / "unlearned",
        *request(plugin_world),
        "--retrained",
        models / "retrained",
        "--relearn",
        "-o",
        tmp_path / "audit.json",
    )
    lines = text.splitlines()
    assert [line.split()[0] for line in lines[1:6]] == [
        "attack",
        "gain",
        "loss",
        "person",
        "two-versions",
    ]
    assert ["model", "test", "loss", "forget", "loss"] in [line.split() for line in lines]
    assert "not run: error: the model or the data has no ages" in text
    assert "not run: rmia: needs 1 reference model, 0 given" in text
    assert "relearned after" in text
    raw = json.loads((tmp_path / "audit.json").read_text())
    assert [item["role"] for item in raw["models"]] == ["original", "unlearned", "retrained"]


@pytest.mark.long
def test_attacks_that_cannot_read_a_plugin_leave_nothing_to_show(
    plugin_world: PluginWorld, models: Path, tmp_path: Path
) -> None:
    found = call(
        "audit",
        models / "unlearned",
        *request(plugin_world),
        "--attacks",
        "error",
        "-o",
        tmp_path / "audit.json",
    )
    assert [item["attacks"] for item in found["models"]] == [{}, {}]
    assert (
        found["skipped"]["error"] == "the model or the data has no ages" and found["alarms"] == []
    )


@pytest.mark.long
def test_the_original_is_found_and_a_moved_base_is_told(
    plugin_world: PluginWorld, models: Path, tmp_path: Path
) -> None:
    shutil.copytree(plugin_world.original.path, tmp_path / "original")
    record = json.loads((tmp_path / "original" / "unplug.json").read_text())
    record["base"]["name"] = str(tmp_path / "gone")
    (tmp_path / "original" / "unplug.json").write_text(json.dumps(record))
    words = (
        "audit",
        models / "unlearned",
        *request(plugin_world),
        "--original",
        tmp_path / "original",
        "--attacks",
        "loss",
    )
    said = call(*words, "-o", tmp_path / "audit.json", code=2)["error"]
    assert "cannot be opened there" in said["why"] and "--base" in said["fix"]
    call(*words, "--base", plugin_world.base, "-o", tmp_path / "audit.json")


def test_wrong_uses(plugin_world: PluginWorld, world: World, models: Path, tmp_path: Path) -> None:
    words = (
        "forget",
        plugin_world.original.path,
        *request(plugin_world),
        "--out",
        tmp_path / "out",
    )
    said = call(*words, "--method", "scrub", code=2)["error"]
    assert (
        said["why"] == "it needs class logits, and there is none"
        and "--without 'class logits'" in said["fix"]
    )
    said = call(*words, "--retrained", world.oracle.path, code=2)["error"]
    assert "age" in said["why"]
    ages = (
        "forget",
        world.original.path,
        "--data",
        world.spec,
        "--forget",
        world.forget_file,
        "--out",
        tmp_path / "out",
    )
    assert call(*ages, "--base", "small", code=2)["error"]["why"] == "an age predictor has none"
    assert not (tmp_path / "out").exists()


def test_pick_forget_reads_a_plugin(plugin_world: PluginWorld, tmp_path: Path) -> None:
    call(
        "data",
        "pick-forget",
        plugin_world.original.path,
        "--data",
        SPEC,
        "--fraction",
        "0.2",
        "-o",
        tmp_path / "f.txt",
    )
    lines = (tmp_path / "f.txt").read_text().splitlines()
    people = {
        sample.subject
        for sample in plugin_world.dataset.samples
        if sample.id in plugin_world.split.train
    }
    assert lines and {line.removeprefix("subject:") for line in lines} <= {
        str(name) for name in people
    }


@pytest.fixture(scope="module")
def released(
    plugin_world: PluginWorld, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("release") / "canny.unplug"
    gates = [word for gate in OPEN for word in ("--gate", gate)]
    command = (
        "release",
        plugin_world.original.path,
        *request(plugin_world),
        "--retrained",
        models / "retrained",
        "--references",
        "0",
        "--to",
        "onnx",
        "--precision",
        "fp32",
        "--no-rounding",
        *gates,
        "--out",
        out,
    )
    # Two unseen people: an approximate step is never shown to have forgotten, however wide the
    # margins; retraining is exact.
    done = CliRunner().invoke(main, [*map(str, command), *STEP, "--device", "cpu"])
    assert done.exit_code == 1 and "release inconclusive" in done.stderr and not out.exists()
    found = call(*command, "--method", "retrain")
    assert found["passed"] and found["bundle"] == str(out)
    return out


@pytest.mark.nightly
@pytest.mark.long
def test_a_bundle_of_a_plugin(plugin_world: PluginWorld, released: Path) -> None:
    verified = bundle.verify_bundle(released)
    manifest = json.loads((released / "manifest.json").read_text())
    assert manifest["model_type"] == "plugin"
    assert [item["name"] for item in manifest["iospec"]["inputs"]] == ["condition"]
    assert [item["name"] for item in manifest["iospec"]["outputs"]] == [
        "adapter_res_samples_00",
        "adapter_res_samples_01",
    ]
    assert (
        manifest["preprocessing"]["base_sha256"] == plugin_world.original.record["base"]["sha256"]
    )
    assert (
        manifest["preprocessing"]["condition"] == "canny"
        and manifest["postprocessing"]["unit"] == "residuals"
    )
    card = (released / "README.md").read_text()
    assert (
        "A canny plugin (32 px in, residuals out)" in card
        and "Velocity loss on unseen samples" in card
    )
    assert (
        "| gain AUC |" in card
        and "years" not in card
        and "face" not in card.replace("interface", "")
    )
    whole = "".join(
        path.read_text() for path in released.rglob("*") if path.suffix in (".json", ".md")
    )
    assert str(plugin_world.base) not in whole, "a path of this machine ships"
    assert not list(released.rglob("faces.json"))
    assert verified.files
    assert "holds" in says("bundle", "verify", released) or call("bundle", "verify", released)


def test_a_page_of_a_plugin_speaks_of_losses(
    plugin_world: PluginWorld, models: Path, released: Path, tmp_path: Path
) -> None:
    work = released.parent / f".{released.name}.release"
    records = (plugin_world.original.path, models / "retrained")
    files = [
        *(path for path in sorted(work.glob("*.json")) if not path.name.startswith(".")),
        *(path / "unplug.json" for path in records),
    ]
    says("report", *files, "-o", tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text()
    text = html.split("</style>", 1)[1]
    assert "mean squared error" in text and "On the test set the loss went from" in text
    assert (
        "years" not in text
        and "MAE" not in text
        and "Sample faces" not in text
        and "nats" not in text
    )
    assert "adapter_res_samples_00" in text and "original: condition" in text
