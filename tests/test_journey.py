"""The README's journey and the demo through the real command line: every number is looked at, not
only made.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main

from .sdk.cli.calls import run

pytestmark = pytest.mark.long

ARTIFACT_AUC_TOLERANCE = 0.02
BUDGET = 0.6  # of a training of four epochs: less would not cover one step
SYNTH = "data synth --count 150 --subjects 50 --pixels 48 --out"


def unplug(line: str) -> Any:
    """Runs a command that says nothing but its JSON."""
    done = run(f"{line} --json")
    assert done.stderr == ""
    return json.loads(done.stdout)


@dataclass(frozen=True)
class Journey:
    """Where the journey went, and what each step said."""

    root: Path
    said: dict[str, Any]

    @property
    def data(self) -> str:
        return f"--data csv:{self.root}/faces/labels.csv"

    @property
    def request(self) -> str:
        return f"{self.data} --forget {self.root}/forget.txt"

    @property
    def files(self) -> list[str]:
        return [
            f"{self.root}/artifacts/age.{precision}.{end}"
            for end in ("tflite", "onnx")
            for precision in ("fp32", "fp16")
        ]


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Journey:
    root = tmp_path_factory.mktemp("journey")
    trip = Journey(root, {})
    forget = f"forget {root}/original {trip.request}"
    recipe = "--size nano --pixels 32 --epochs 4 --augment flip"
    for step, line in {
        "synth": f"{SYNTH} {root}/faces",
        "inspect": f"data inspect csv:{root}/faces/labels.csv --pixels 32 --ids",
        "train": f"train age {trip.data} {recipe} --out {root}/original",
        "pick": f"data pick-forget {root}/original {trip.data} --fraction 0.2 --out {root}/forget.txt",
        "retrain": f"{forget} --method retrain --out {root}/retrained",
        "forget": f"{forget} --method msg --budget {BUDGET} --retrained {root}/retrained "
        f"--out {root}/unlearned",
        "export": f"export {root}/unlearned --to litert,onnx --precision fp32,fp16 "
        f"--out {root}/artifacts",
    }.items():
        trip.said[step] = unplug(line)
    return trip


def test_data(journey: Journey) -> None:
    faces, again = journey.root / "faces", journey.root / "again"
    counts = {"samples": 150, "subjects": 50}
    assert journey.said["synth"] == {"out": str(faces), "size": 48, **counts}
    assert len(list(faces.glob("*.png"))) == 150
    described = journey.said["inspect"]
    assert described.items() >= counts.items()
    assert described["unusable"] == [] and len(described["ids"]) == 150
    unplug(f"{SYNTH} {again}")
    one, other = (
        unplug(f"data inspect csv:{folder}/labels.csv")["digest"] for folder in (faces, again)
    )
    assert one == other, "the same seed gave other faces"


def test_train_and_forget(journey: Journey) -> None:
    trained, forgot, retrained = (journey.said[name] for name in ("train", "forget", "retrain"))
    people = {name: trained["metrics"][name]["n"] for name in ("train", "validation", "test")}
    assert sum(people.values()) == 150
    assert forgot["method"] == "msg" and retrained["method"] == "retrain"
    assert forgot["samples"] == retrained["samples"] == 3 * journey.said["pick"]["lines"]
    assert 0 < forgot["cost"]["compute_fraction"] <= BUDGET
    assert retrained["cost"]["compute_fraction"] == pytest.approx(1.0)
    assert forgot["metrics"]["retain"]["n"] + forgot["samples"] == people["train"]
    assert len({trained["sha256"], forgot["sha256"], retrained["sha256"]}) == 3


def test_audit(journey: Journey) -> None:
    root, out = journey.root, journey.root / "audit.json"
    models = f"{root}/unlearned {journey.files[1]} {journey.files[2]} {journey.request}"
    how = f"--retrained {root}/retrained --train-references 1 --no-rounding"
    report = unplug(f"audit {models} {how} --out {out}")
    assert report == json.loads(out.read_text())
    shipped = [model for model in report["models"] if model["role"] == "artifact"]
    roles = {model["role"]: model for model in report["models"] if model not in shipped}
    assert {role: model["name"] for role, model in roles.items()} == {
        role: role for role in ("original", "unlearned", "retrained")
    }
    unlearned = roles["unlearned"]
    assert unlearned["sha256"] == journey.said["forget"]["sha256"] and len(shipped) == 2
    for attack in ("loss", "rmia"):
        auc = unlearned["attacks"][attack]["auc"]["value"]
        for model in shipped:
            of_file = model["attacks"][attack]["auc"]["value"]
            assert of_file == pytest.approx(auc, abs=ARTIFACT_AUC_TOLERANCE)
        gap = unlearned["attacks"][attack]["minus_retrained"]
        assert gap["low"] <= gap["value"] <= gap["high"]
        oracle = roles["retrained"]["attacks"][attack]["auc"]["value"]
        assert gap["value"] == pytest.approx(auc - oracle)
    forgotten = {"samples": journey.said["forget"]["samples"]}
    assert report["forget"] == forgotten | {"subjects": journey.said["pick"]["lines"]}


def test_run(journey: Journey) -> None:
    face = min((journey.root / "faces").glob("*.png"))
    by_weights, by_file, boxed = (
        unplug(f"run {model} --image {face}")["results"][0]
        for model in (
            journey.root / "unlearned",
            journey.files[0],
            f"{journey.files[0]} --box 8,8,40,40",
        )
    )
    assert by_file["age"] == pytest.approx(by_weights["age"], abs=1e-3)
    shares = [group["probability"] for group in by_file["groups"]]
    assert sum(shares) == pytest.approx(1.0)
    assert shares == sorted(shares, reverse=True) and len(shares) == 13
    assert boxed["crop"] == "box 8,8,40,40" and boxed["age"] != by_file["age"]


def assert_nobody_is_named(trip: Journey, paths: list[Path]) -> None:
    """What is left of a request, by ids in clear: the original's record, and the request."""
    names = [entry["id"].encode() for entry in trip.said["inspect"]["ids"]]
    assert any(name in (trip.root / "original" / "unplug.json").read_bytes() for name in names)
    for path in filter(Path.is_file, paths):
        content = path.read_bytes()
        assert not any(name in content for name in names), f"{path.name} names a picture"


def test_release_and_report(journey: Journey) -> None:
    root = journey.root
    bundle, work, page = root / "age.unplug", root / ".age.unplug.release", root / "report.html"
    gates = {
        "max_auc_above_retrained": 1,
        "max_auc_below_retrained": 1,
        "max_mae_above_retrained": 99,
        "max_accuracy_below_retrained": 1,
        "worst_person": "false",
    }
    asked = " ".join(f"--gate {name}={value}" for name, value in gates.items())
    how = f"--retrained {root}/retrained --train-references 0 --budget {BUDGET} --no-rounding"
    files = f"--to onnx --precision fp32 --out {bundle}"
    released = unplug(f"release {root}/original {journey.request} {how} {files} {asked}")
    assert released["passed"] and all(gate["passed"] for gate in released["gates"])
    assert unplug(f"bundle verify {bundle}")["bundle"] == str(bundle)
    # The bundle's files are audited like any exported file.
    of_bundle = f"{bundle} {journey.request} --original {root}/original --attacks loss"
    audited = unplug(f"audit {of_bundle} --out {root}/bundle-audit.json")
    assert [model["name"] for model in audited["models"]] == ["original", "age.fp32.onnx"]
    for path in filter(Path.is_file, bundle.rglob("*")):
        content = path.read_bytes()
        assert str(root).encode() not in content, f"{path.name} names a folder of this machine"
        assert b"labels.csv" not in content, path.name
    assert not (work / "faces.json").exists(), "nobody asked for pictures of people"
    stages = [work / f"{name}.json" for name in ("release", "audit", "parity", "bench")]
    records = [root / name / "unplug.json" for name in ("original", "retrained", "unlearned")]
    reports = " ".join(map(str, [*stages, *records]))
    assert unplug(f"report {reports} --out {page}")["bytes"] == page.stat().st_size
    assert_nobody_is_named(journey, [*bundle.rglob("*"), *work.rglob("*.json"), page, *records[1:]])
    html = page.read_text()
    assert html.count("<svg") >= 3 and html.rstrip().endswith("</html>")
    assert "data:image" not in html and "Faces" not in html, "nobody asked for pictures of people"
    assert not re.search(r"""(src|href)=["']https?://""", html), "the page loads something"


@pytest.mark.nightly
def test_the_original_is_attackable_and_the_oracle_is_not(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, f"demo --method fcs --fraction 0.1 --out {tmp_path}/demo")
    # an approximate method may be refused; what it started from is asked here
    assert done.exit_code in (0, 1), done.output
    audit = json.loads((tmp_path / "demo" / "audit.json").read_text())
    models = {model["role"]: model["attacks"] for model in audit["models"]}
    for attack in ("loss", "rmia"):
        original, oracle = (models[role][attack]["auc"] for role in ("original", "retrained"))
        assert original["low"] > 0.55, attack
        assert oracle["low"] < 0.5 < oracle["high"], attack
