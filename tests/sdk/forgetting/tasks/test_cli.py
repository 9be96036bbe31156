"""`unplug forget`, `audit`, `release`, `bundle verify` and `report` on a plugin, as a user types
them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main
from unplug.trust.bundle import bundle

from ...conftest import World
from .conftest import SPEC, PluginWorld

OPEN = (
    "--gate max_auc_above_retrained=1 --gate max_auc_below_retrained=1"
    " --gate max_loss_above_retrained=10 --gate max_artifact_auc_shift=0.1"
)
"""Gates that a plugin of a dozen steps passes."""
STEP = "--method finetune --set batch_size=4 --budget 0.9"


def on_cpu(words: str) -> list[str]:
    """Commands that compute nothing have no device."""
    return [] if words.startswith(("report ", "bundle ")) else ["--device", "cpu"]


def call(words: str, code: int = 0) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*words.split(), "--json", *on_cpu(words)])
    assert done.exit_code == code, done.stderr
    assert "Traceback" not in done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def says(words: str) -> str:
    done = CliRunner().invoke(main, [*words.split(), *on_cpu(words)])
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def request_of(plugin_world: PluginWorld) -> str:
    return f"--data {SPEC} --forget {plugin_world.forget_file}"


@pytest.fixture(scope="module")
def forgetting(plugin_world: PluginWorld, request_of: str) -> str:
    return f"forget {plugin_world.original.path} {request_of}"


@pytest.fixture(scope="module")
def models(forgetting: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `retrained` and `unlearned`."""
    root = tmp_path_factory.mktemp("cli")
    call(f"{forgetting} --method retrain --out {root}/retrained --seed 3")
    call(f"{forgetting} {STEP} --retrained {root}/retrained --out {root}/unlearned")
    return root


@pytest.mark.long
def test_forget_says_losses_and_what_to_do_next(
    plugin_world: PluginWorld, forgetting: str, tmp_path: Path
) -> None:
    base = f"--base {plugin_world.base}"
    text = says(f"{forgetting} {STEP} {base} --out {tmp_path}/out")
    lines = text.splitlines()
    assert lines[0].startswith(f"saved {tmp_path / 'out'}: 10 samples forgotten by finetune in ")
    # behind sentences of any length
    start = next(number for number, line in enumerate(lines) if line.startswith("forget "))
    *rows, last = lines[start : start + 4]
    counts = [" ".join(line.split()[:3]) for line in rows]
    assert counts == ["forget 10 samples", "retain 18 samples", "test 12 samples"]
    assert all("velocity loss" in line and "without the plugin)" in line for line in rows)
    assert last.startswith("Next: unplug audit ") and base in last
    assert "years" not in text and "MAE" not in text


@pytest.mark.long
def test_audit_prints_losses(models: Path, request_of: str, tmp_path: Path) -> None:
    text = says(
        f"audit {models}/unlearned {request_of} --retrained {models}/retrained --relearn"
        f" -o {tmp_path}/audit.json"
    )
    lines = [line.split() for line in text.splitlines()]
    attacks = ["attack", "gain", "loss", "person", "two-versions"]
    assert [words[0] for words in lines[1:6]] == attacks
    assert ["model", "test", "loss", "forget", "loss"] in lines
    assert "not run: error: the model answers with no number, or the data have none" in text
    assert "not run: rmia: needs 1 reference model, 0 given" in text
    assert "relearned after" in text
    raw = json.loads((tmp_path / "audit.json").read_text())
    assert [row["role"] for row in raw["models"]] == ["original", "unlearned", "retrained"]


def test_models_of_another_kind_do_not_help(world: World, forgetting: str, tmp_path: Path) -> None:
    told = call(f"{forgetting} --out {tmp_path}/out --retrained {world.oracle.path}", code=2)
    assert "age" in told["error"]["why"] and not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def released(
    plugin_world: PluginWorld,
    models: Path,
    request_of: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    out = tmp_path_factory.mktemp("release") / "canny.unplug"
    command = (
        f"release {plugin_world.original.path} {request_of} --retrained {models}/retrained"
        f" --train-references 0 --to onnx --precision fp32 --no-rounding {OPEN} --out {out}"
    )
    # So few unseen people: an approximate step is never shown to have forgotten, however wide the
    # margins; retraining is exact.
    done = CliRunner().invoke(main, [*command.split(), *STEP.split(), "--device", "cpu"])
    assert done.exit_code == 2 and "fewer than 20" in done.stderr and not out.exists()
    told = call(f"{command} --method retrain --audit full")
    assert told["passed"] and told["bundle"] == str(out)
    return out


@pytest.mark.nightly
@pytest.mark.long
def test_a_bundle_of_a_plugin(plugin_world: PluginWorld, released: Path) -> None:
    assert bundle.verify_bundle(released).files
    manifest = json.loads((released / "manifest.json").read_text())
    names = {side: [row["name"] for row in rows] for side, rows in manifest["iospec"].items()}
    assert manifest["model_type"] == "plugin" and names["inputs"] == ["condition"]
    assert names["outputs"] == ["adapter_res_samples_00", "adapter_res_samples_01"]
    before, after = manifest["preprocessing"], manifest["postprocessing"]
    assert before["base_sha256"] == plugin_world.original.record["base"]["sha256"]
    assert before["condition"] == "canny" and after["unit"] == "residuals"
    card = (released / "README.md").read_text()
    for words in (
        "A canny plugin (32 px in, residuals out)",
        "Velocity loss on unseen samples",
        "| gain AUC |",
    ):
        assert words in card
    assert "years" not in card and "face" not in card.replace("interface", "")
    texts = [path.read_text() for path in released.rglob("*") if path.suffix in (".json", ".md")]
    assert str(plugin_world.base) not in "".join(texts), "a path of this machine ships"
    assert not list(released.rglob("faces.json"))
    assert "holds" in says(f"bundle verify {released}") or call(f"bundle verify {released}")


@pytest.mark.long
def test_a_page_of_a_plugin_speaks_of_losses(
    plugin_world: PluginWorld, models: Path, released: Path, tmp_path: Path
) -> None:
    work = released.parent / f".{released.name}.release"
    files = [path for path in sorted(work.glob("*.json")) if not path.name.startswith(".")]
    files += [path / "unplug.json" for path in (plugin_world.original.path, models / "retrained")]
    says(f"report {' '.join(map(str, files))} -o {tmp_path}/report.html")
    text = (tmp_path / "report.html").read_text().split("</style>", 1)[1]
    for words in (
        "mean squared error",
        "On the test set the loss went from",
        "adapter_res_samples_00",
        "original: condition",
    ):
        assert words in text
    for words in ("years", "MAE", "Sample faces", "nats"):
        assert words not in text
