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

from unplug.export import PRECISIONS
from unplug.sdk.cli import main

pytestmark = pytest.mark.long

ARTIFACT_AUC_TOLERANCE = 0.02
BUDGET = 0.6  # of a training of four epochs: less would not cover one step


def unplug(*args: object, code: int = 0) -> Any:
    """Runs a command and returns its JSON."""
    result = CliRunner().invoke(main, [*map(str, args), "--json"])
    assert result.exit_code == code, result.stderr or result.exception
    assert result.stderr == "", "with --json nothing else is said"
    return json.loads(result.stdout)


@dataclass(frozen=True)
class Journey:
    """Where the journey went, and what each step said."""

    root: Path
    said: dict[str, Any]

    @property
    def data(self) -> tuple[str, str]:
        return "--data", f"csv:{self.root}/faces/labels.csv"

    @property
    def request(self) -> tuple[object, ...]:
        return (*self.data, "--forget", self.root / "forget.txt")


@pytest.fixture(scope="module")
def journey(tmp_path_factory: pytest.TempPathFactory) -> Journey:
    root = tmp_path_factory.mktemp("journey")
    trip = Journey(root, {})
    said = trip.said
    said["synth"] = unplug(
        "data", "synth", "--n", 150, "--subjects", 50, "--size", 48, "--out", root / "faces"
    )
    said["inspect"] = unplug("data", "inspect", trip.data[1], "--size", 32, "--ids")
    said["train"] = unplug(
        "train",
        "age",
        *trip.data,
        "--size",
        "nano",
        "--image-size",
        32,
        "--epochs",
        4,
        "--augment",
        "flip",
        "--out",
        root / "original",
    )
    said["pick"] = unplug(
        "data",
        "pick-forget",
        root / "original",
        *trip.data,
        "--fraction",
        0.2,
        "--out",
        root / "forget.txt",
    )
    said["retrain"] = unplug(
        "forget",
        root / "original",
        *trip.request,
        "--method",
        "retrain",
        "--out",
        root / "retrained",
    )
    said["forget"] = unplug(
        "forget",
        root / "original",
        *trip.request,
        "--method",
        "msg",
        "--budget",
        BUDGET,
        "--retrained",
        root / "retrained",
        "--out",
        root / "unlearned",
    )
    said["export"] = unplug(
        "export",
        root / "unlearned",
        "--to",
        "litert,onnx",
        "--precision",
        "fp32,fp16",
        "--out",
        root / "artifacts",
    )
    return trip


def files(trip: Journey) -> list[Path]:
    return [
        trip.root / "artifacts" / f"age.{precision}.{end}"
        for end in ("tflite", "onnx")
        for precision in ("fp32", "fp16")
    ]


def test_data(journey: Journey) -> None:
    assert journey.said["synth"] == {
        "out": str(journey.root / "faces"),
        "samples": 150,
        "subjects": 50,
        "size": 48,
    }
    assert len(list((journey.root / "faces").glob("*.png"))) == 150
    described = journey.said["inspect"]
    assert (
        described["samples"],
        described["subjects"],
        described["unusable"],
        len(described["ids"]),
    ) == (150, 50, [], 150)
    again = unplug(
        "data", "synth", "--n", 150, "--subjects", 50, "--size", 48, "--out", journey.root / "again"
    )
    assert again["samples"] == 150
    one, other = (
        unplug("data", "inspect", f"csv:{journey.root}/{name}/labels.csv")["digest"]
        for name in ("faces", "again")
    )
    assert one == other, "the same seed gave other faces"


def test_train_and_forget(journey: Journey) -> None:
    trained, forgot, retrained = (journey.said[name] for name in ("train", "forget", "retrain"))
    people = sum(trained["metrics"][name]["n"] for name in ("train", "validation", "test"))
    assert people == 150
    assert forgot["method"] == "msg" and retrained["method"] == "retrain"
    assert forgot["samples"] == retrained["samples"] == 3 * journey.said["pick"]["lines"]
    assert 0 < forgot["cost"]["compute_fraction"] <= BUDGET
    assert retrained["cost"]["compute_fraction"] == pytest.approx(1.0)
    assert forgot["metrics"]["retain"]["n"] + forgot["samples"] == trained["metrics"]["train"]["n"]
    assert len({trained["sha256"], forgot["sha256"], retrained["sha256"]}) == 3


def test_parity(journey: Journey) -> None:
    out = journey.root / "parity.json"
    said = unplug(
        "parity",
        *files(journey),
        "--checkpoint",
        journey.root / "unlearned",
        "--samples",
        8,
        "--out",
        out,
    )
    assert said == json.loads(out.read_text())
    assert len(said["rows"]) == 4 * 2
    for row in said["rows"]:
        assert row["status"] == "pass", row
        assert row["threshold_db"] == PRECISIONS.get(row["precision"]).min_psnr_db
        assert row["exact"] or row["psnr_db"] >= row["threshold_db"]
    assert {row["threshold_db"] for row in said["rows"]} == {100.0, 60.0}
    # Against the original, whose weights are others, the same files must fail.
    wrong = unplug("parity", files(journey)[0], "--checkpoint", journey.root / "original", code=1)
    assert {row["status"] for row in wrong["rows"]} == {"fail"}


def test_audit(journey: Journey) -> None:
    out = journey.root / "audit.json"
    said = unplug(
        "audit",
        journey.root / "unlearned",
        *files(journey)[1:3],
        *journey.request,
        "--retrained",
        journey.root / "retrained",
        "--train-references",
        1,
        "--no-rounding",
        "--out",
        out,
    )
    assert said == json.loads(out.read_text())
    models = {model["name"]: model for model in said["models"]}
    assert {
        name: model["role"] for name, model in models.items() if model["role"] != "artifact"
    } == {"original": "original", "unlearned": "unlearned", "retrained": "retrained"}
    assert models["unlearned"]["sha256"] == journey.said["forget"]["sha256"]
    shipped = [model for model in said["models"] if model["role"] == "artifact"]
    assert len(shipped) == 2
    for attack in ("loss", "rmia"):
        on_checkpoint = models["unlearned"]["attacks"][attack]["auc"]["value"]
        for model in shipped:
            assert model["attacks"][attack]["auc"]["value"] == pytest.approx(
                on_checkpoint, abs=ARTIFACT_AUC_TOLERANCE
            )
        gap = models["unlearned"]["attacks"][attack]["minus_retrained"]
        assert gap["low"] <= gap["value"] <= gap["high"]
        assert gap["value"] == pytest.approx(
            on_checkpoint - models["retrained"]["attacks"][attack]["auc"]["value"]
        )
    assert said["forget"] == {
        "samples": journey.said["forget"]["samples"],
        "subjects": journey.said["pick"]["lines"],
    }


def test_run(journey: Journey) -> None:
    face = next(iter(sorted((journey.root / "faces").glob("*.png"))))
    by_file = unplug("run", files(journey)[0], "--image", face)["results"][0]
    by_weights = unplug("run", journey.root / "unlearned", "--image", face)["results"][0]
    assert by_file["age"] == pytest.approx(by_weights["age"], abs=1e-3)
    assert sum(group["probability"] for group in by_file["groups"]) == pytest.approx(1.0)
    shares = [group["probability"] for group in by_file["groups"]]
    assert shares == sorted(shares, reverse=True) and len(shares) == 13
    boxed = unplug("run", files(journey)[0], "--image", face, "--box", "8,8,40,40")["results"][0]
    assert boxed["crop"] == "box 8,8,40,40" and boxed["age"] != by_file["age"]


def test_bench(journey: Journey) -> None:
    out = journey.root / "bench.json"
    said = unplug(
        "bench",
        files(journey)[0],
        files(journey)[2],
        "--checkpoint",
        journey.root / "unlearned",
        "--iterations",
        5,
        "--repeats",
        2,
        "--threads",
        1,
        "--out",
        out,
    )
    assert said == json.loads(out.read_text())
    assert len(said["rows"]) == 2
    for row in said["rows"]:
        assert row["valid"], row["reasons"]
        summary = row["summary"]
        assert 0 < summary["min"] <= summary["p50"] <= summary["p90"] <= summary["max"]


def assert_nobody_is_named(trip: Journey, paths: list[Path]) -> None:
    """What is left of a request, by ids in clear: the original's record, and the request."""
    names = [entry["id"].encode() for entry in trip.said["inspect"]["ids"]]
    assert any(name in (trip.root / "original" / "unplug.json").read_bytes() for name in names)
    for path in filter(Path.is_file, paths):
        content = path.read_bytes()
        assert not any(name in content for name in names), f"{path.name} names a picture"


def test_release_and_report(journey: Journey) -> None:
    root = journey.root
    command = (
        "release",
        root / "original",
        *journey.request,
        "--retrained",
        root / "retrained",
        "--references",
        0,
        "--budget",
        BUDGET,
        "--to",
        "onnx",
        "--precision",
        "fp32",
        "--no-rounding",
        "--out",
        root / "age.unplug",
        "--gate",
        "max_auc_above_retrained=1",
        "--gate",
        "max_auc_below_retrained=1",
        "--gate",
        "worst_person=false",
        "--gate",
        "max_accuracy_below_retrained=1",
    )
    said = unplug(*command, "--gate", "max_mae_above_retrained=99")
    assert said["passed"] and all(gate["passed"] for gate in said["gates"])
    assert unplug("bundle", "verify", root / "age.unplug")["bundle"] == str(root / "age.unplug")
    # The bundle's files are audited like any exported file.
    audited = unplug(
        "audit",
        root / "age.unplug",
        *journey.request,
        "--original",
        root / "original",
        "--attacks",
        "loss",
        "--out",
        root / "bundle-audit.json",
    )
    assert [model["name"] for model in audited["models"]] == ["original", "age.fp32.onnx"]
    for path in (root / "age.unplug").rglob("*"):
        if path.is_file():
            assert str(root).encode() not in path.read_bytes(), (
                f"{path.name} names a folder of this machine"
            )
            assert b"labels.csv" not in path.read_bytes(), path.name
    assert_nobody_is_named(
        journey,
        [*(root / "age.unplug").rglob("*"), *(root / ".age.unplug.release").rglob("*.json")],
    )
    work = root / ".age.unplug.release"
    assert not (work / "faces.json").exists(), "nobody asked for pictures of people"
    pages = [
        *(work / f"{name}.json" for name in ("release", "audit", "parity", "bench")),
        *(root / name / "unplug.json" for name in ("original", "retrained", "unlearned")),
    ]
    drawn = unplug("report", *pages, "--out", root / "report.html")
    html = (root / "report.html").read_text()
    assert drawn["bytes"] == (root / "report.html").stat().st_size
    assert_nobody_is_named(
        journey,
        [
            root / "report.html",
            *(root / name / "unplug.json" for name in ("retrained", "unlearned")),
        ],
    )
    assert html.count("<svg") >= 3 and html.rstrip().endswith("</html>")
    assert "data:image" not in html and "Faces" not in html, "nobody asked for pictures of people"
    assert not re.search(r"""(src|href)=["']https?://""", html), "the page loads something"


@pytest.mark.nightly
def test_the_original_is_attackable_and_the_oracle_is_not(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main, ["demo", "--method", "fcs", "--fraction", "0.1", "--out", str(tmp_path / "demo")]
    )
    # an approximate method may be refused; what it started from is asked here
    assert done.exit_code in (0, 1), done.output
    audit = json.loads((tmp_path / "demo" / "audit.json").read_text())
    models = {
        model["role"]: model["attacks"] for model in audit["models"] if model["role"] != "artifact"
    }
    for attack in ("loss", "rmia"):
        original, oracle = (models[role][attack]["auc"] for role in ("original", "retrained"))
        assert original["low"] > 0.55, attack
        assert oracle["low"] < 0.5 < oracle["high"], attack
