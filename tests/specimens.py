"""A sound file of every kind that commands read, and what they do with it; small enough to be read
a thousand times.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unplug.core import sha256_file, write_json
from unplug.export import Card, ParityReport, load_artifact
from unplug.export.artifact import write_card
from unplug.mobile_bench import (
    BenchReport,
    compare_reports,
    csv_text,
    known_devices,
    listing,
    load_baselines,
    markdown,
    read_xcode,
    rechecked,
)
from unplug.mobile_bench.baselines import SHIPPED
from unplug.plugins import AgePredictor, Checkpoint, load_checkpoint, save_checkpoint
from unplug.sdk.drawing.conditions import Steering
from unplug.sdk.drawing.conditions.inputs import part_of
from unplug.sdk.drawing.device import PIPELINE, Words, generate, load_pipeline, open_files
from unplug.sdk.drawing.device.base_folder import read_schedule, read_tokenizer
from unplug.sdk.drawing.diffusion import shipped_folder
from unplug.sdk.drawing.inference import read_decision
from unplug.sdk.evidence.assurance import PROTOCOLS, Asking, judge
from unplug.sdk.evidence.auditing.audit_files import _original_path, _unlearned
from unplug.sdk.evidence.fleet import load_references, train_references
from unplug.sdk.forgetting.tasks import task_of
from unplug.sdk.forgetting.unlearning import check_oracle, request_split
from unplug.sdk.forgetting.unlearning.design import design_of
from unplug.sdk.learning.data import (
    Dataset,
    describe_request,
    load_dataset,
    load_split,
    make_split,
    read_forget_file,
)
from unplug.sdk.learning.training import Recipe, recipe_of, split_of
from unplug.sdk.report import collect, render_html
from unplug.trust.bundle import verify_bundle

from .sdk.drawing.device.toy import networks, toy
from .sdk.evidence.assurance.planted import crowd, said
from .sdk.report.conftest import SHA, journey
from .sdk.trust.bundle.test_bundle import make_bundle
from .vectors.decision.make import record as decision

SPEC, SIDE = "synth:n=24,subjects=12,seed=3", 32
CPU = torch.device("cpu")
BASE = shipped_folder("small")


@dataclass(frozen=True, kw_only=True)
class Specimen:
    """A kind of file and who reads it.

    Args:
        make: writes a sound file, and what lies around it, into a folder; returns its path.
        read: what a command does with the path.
    """

    make: Callable[[Path], Path]
    read: Callable[[Path], object]


def written(value: Any, name: str = "a.json") -> Callable[[Path], Path]:
    """Writes a JSON value."""

    def make(folder: Path) -> Path:
        write_json(folder / name, value)
        return folder / name

    return make


@cache
def data() -> Dataset:
    """Two dozen drawn faces."""
    return load_dataset(SPEC, SIDE, show=False)


def page(path: Path) -> str:
    """``unplug report``."""
    return render_html(collect([path]), title="a")


def whole_journey(folder: Path) -> Path:
    """An audit beside the records of its models."""
    for name, value in journey().items():
        (folder / name).parent.mkdir(exist_ok=True)
        written(value, f"{name}.json")(folder)
    return folder / "audit.json"


def journey_page(path: Path) -> str:
    """``unplug report`` of all of it."""
    return render_html(collect(sorted(path.parent.rglob("*.json"))), title="a")


def plugin_record() -> dict[str, Any]:
    """As `unplug train plugin` writes it, in short."""
    kept = {
        key: value
        for key, value in journey()["original/unplug"].items()
        if key not in ("schema", "history")
    }
    return kept | {
        "schema": "unplug-plugin/1",
        "history": [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5}],
        "base": {"name": "small", "sha256": SHA["data"]},
        "condition": {"kind": "canny", "settings": {"low": 1.0}},
    }


def evaluated() -> dict[str, Any]:
    """What `unplug evaluate` writes of a small crowd, in short."""
    ages = np.arange(8.0, 32.0).repeat(6)
    people = crowd(ages, {"sex": ["female", "male"] * (len(ages) // 2)})
    return judge(
        [said(people, ages + 1.0)], PROTOCOLS.get("fate-aev"), Asking(replicates=20)
    ).to_dict()


# Benchmarks


def compared(path: Path) -> object:
    """``unplug bench compare``, against a sound report and against itself."""
    found = BenchReport.load(path)
    other = BenchReport.load(path.with_name("sound.json"))
    return (
        compare_reports(other, found),
        compare_reports(found, other),
        compare_reports(found, found),
    )


def two_benches(folder: Path) -> Path:
    write_json(folder / "sound.json", journey()["bench"])
    return written(journey()["bench"])(folder)


def tabled(path: Path) -> object:
    """``unplug bench table``, ``import`` and ``estimate --rows``."""
    found = BenchReport.load(path)
    return (
        markdown(found),
        csv_text(found),
        rechecked(found),
        known_devices([found], load_baselines()),
    )


# Exported files and bundles


def exported(folder: Path) -> Path:
    """The card of an age model of random bytes."""
    (folder / "age.fp32.onnx").write_bytes(b"x" * 100)
    spec = AgePredictor(image_size=SIDE).iospec
    card = Card(
        target="onnx",
        precision="fp32",
        file="age.fp32.onnx",
        sha256=sha256_file(folder / "age.fp32.onnx"),
        bytes=100,
        model_type="age",
        iospec=spec,
        config={"age_edges": list(AgePredictor(image_size=SIDE).age_edges), "image_size": SIDE},
        checkpoint_sha256="0" * 64,
        flops=10,
        versions={"python": "3.11.7"},
        seconds=1.0,
        prepare_seconds=2.0,
    )
    write_card(folder / "age.fp32.onnx", card)
    return folder / "age.fp32.onnx.json"


def bundled(name: str) -> Callable[[Path], Path]:
    """A file of a bundle."""
    return lambda folder: make_bundle(folder) / name


def verified(path: Path) -> object:
    """``unplug bundle verify``, after the manifest was given the new hash of a report: as somebody
    with time would do it.
    """
    folder = path.parent if path.name == "manifest.json" else path.parents[1]
    if path.name != "manifest.json":
        manifest = json.loads((folder / "manifest.json").read_text())
        raw = path.read_bytes()
        manifest["files"][f"reports/{path.name}"] = {
            "sha256": hashlib.sha256(raw).hexdigest(),
            "bytes": len(raw),
        }
        (folder / "manifest.json").write_text(json.dumps(manifest))
    return verify_bundle(folder)


def measured(folder: Path) -> Path:
    """A report of Xcode beside a card for Core ML."""
    exported(folder)
    return written(
        {"results": [{"median": 1.5, "runs": [1.0, 2.0]}], "predictionLatency": 0.5}, "report.json"
    )(folder)


def taken(path: Path) -> object:
    """``unplug bench import`` of Xcode's report."""
    loaded = load_artifact(path.with_name("age.fp32.onnx"))
    artifact = replace(loaded, card=replace(loaded.card, target="coreml"))
    return read_xcode(path, artifact, at="results.0.median", unit="ms", device="phone", os="iOS")


# Checkpoints, splits and requests


@cache
def network() -> AgePredictor:
    torch.manual_seed(0)
    return AgePredictor(image_size=SIDE)


def checkpoint(folder: Path, role: str = "retrained") -> Path:
    """A checkpoint of random weights with the record of a forget step."""
    split = make_split(data())
    split = split.with_forget(split.train[:2])
    raw = journey()["unlearned/unplug"]
    record = {key: value for key, value in raw.items() if key != "weights_sha256"} | {
        "role": role,
        "split": split.to_dict(),
        "data": data().facts,
        "recipe": Recipe(size="nano", image_size=SIDE).to_dict(),
        "lineage": {"original": str(folder / "original"), "original_sha256": "0" * 64},
        "metrics": {},
    }
    save_checkpoint(network(), folder / "model", record=record, card="")
    return folder / "model"


def opened(path: Path) -> Checkpoint:
    """What `forget`, `audit`, `export` and `release` take from a checkpoint, all of it."""
    found = load_checkpoint(path.parent)
    task, split = task_of(found, device=CPU), split_of(found)
    design_of(found), recipe_of(found), part_of(found, data(), "retain")
    request_split(found, data(), split.forget)
    check_oracle(found, split, task.recipe)
    return found


def related(path: Path) -> object:
    """What `audit` and `report` take from a record; neither needs more than there is."""
    found = load_checkpoint(path.parent)
    steps: list[Callable[[], object]] = [
        lambda: _unlearned([found], replace(found, sha256="0" * 64), split_of(found), data()),
        lambda: page(path),
        lambda: _original_path([found]),
    ]
    return [step() for step in steps]


def references(folder: Path) -> Path:
    """Eight models of two folds, beside their original."""
    original = load_checkpoint(checkpoint(folder))
    options: dict[str, Any] = {
        "models": 8,
        "folds": 2,
        "device": CPU,
        "backend": "loop",
        "show": False,
    }
    train_references(original, data(), folder / "references", **options)
    return folder / "references"


def ranked_among(path: Path) -> object:
    """What ``unplug audit --fleet`` takes from a folder of references."""
    original = load_checkpoint(path.parents[1] / "model")
    found = load_references(path.parent, original, task_of(original, device=CPU), data())
    row_N = found.rows(make_split(data()).train[:1])
    return found.said(found.never_saw(row_N), row_N.repeat(len(found.never_saw(row_N))))


def split_file(folder: Path) -> Path:
    return written(make_split(data()).to_dict(), "split.json")(folder)


def request(path: Path) -> object:
    """``unplug forget --forget``."""
    return describe_request(read_forget_file(path, data()), data())


def requests() -> dict[str, Any]:
    split, people = (
        make_split(data()),
        {sample.id: str(sample.subject) for sample in data().samples},
    )
    return {"samples": list(split.train[:2]), "subjects": [people[split.train[3]]]}


def within(folder: Path, make: Callable[[Path], Path], name: str) -> Path:
    return make(folder) / name


def generator(folder: Path) -> Path:
    """``pipeline.json`` with files of a few bytes."""
    toy(folder)
    return folder / PIPELINE


def drawn_with(path: Path) -> object:
    """``unplug generate --base FOLDER``, with formulas in the networks' place."""
    found = load_pipeline(path)
    open_files(found, path.parent, target=None, precision=None)
    steers = tuple(
        Steering(
            plugin=name, image=np.arange(768, dtype=np.uint16).astype(np.uint8).reshape(16, 16, 3)
        )
        for name in found.plugins
    )
    parts = {
        **networks(),
        **{f"plugins.{name}": networks()["plugins.canny"] for name in found.plugins},
    }
    return generate(found, parts, Words(prompt="a child", steps=2), steerings=steers)


def base_file(name: str) -> Callable[[Path], Path]:
    """A file of the base that ships, where it lies in a base."""

    def make(folder: Path) -> Path:
        (folder / name).parent.mkdir()
        for file in (BASE / name).parent.iterdir():
            shutil.copyfile(file, (folder / name).parent / file.name)
        return folder / name

    return make


SPECIMENS: dict[str, Specimen] = {
    "pipeline": Specimen(make=generator, read=drawn_with),
    "schedule of a base": Specimen(
        make=base_file("scheduler/scheduler_config.json"),
        read=lambda path: read_schedule(path.parents[1]),
    ),
    "tokenizer of a base": Specimen(
        make=base_file("tokenizer/tokenizer.json"),
        read=lambda path: read_tokenizer(path.parents[1]),
    ),
    "tokenizer_config": Specimen(
        make=base_file("tokenizer/tokenizer_config.json"),
        read=lambda path: read_tokenizer(path.parents[1]),
    ),
    **{
        f"report {name.partition('/')[0]}": Specimen(make=written(value), read=page)
        for name, value in journey().items()
    },
    "report of a journey": Specimen(make=whole_journey, read=journey_page),
    "report plugin": Specimen(make=written(plugin_record()), read=page),
    "report evaluation": Specimen(make=lambda folder: written(evaluated())(folder), read=page),
    "decision": Specimen(make=written(decision()), read=lambda path: read_decision(path).limit()),
    "bench": Specimen(make=written(journey()["bench"]), read=tabled),
    "bench compare": Specimen(make=two_benches, read=compared),
    "baselines": Specimen(
        make=lambda folder: Path(shutil.copyfile(SHIPPED, folder / "b.json")),
        read=lambda path: listing(load_baselines(path)),
    ),
    "parity": Specimen(make=written(journey()["parity"]), read=ParityReport.load),
    "xcode": Specimen(make=measured, read=taken),
    "card": Specimen(make=exported, read=load_artifact),
    "manifest": Specimen(make=bundled("manifest.json"), read=verified),
    "bundle's audit": Specimen(make=bundled("reports/audit.json"), read=verified),
    "bundle's release": Specimen(make=bundled("reports/release.json"), read=verified),
    "configuration": Specimen(
        make=lambda folder: within(folder, checkpoint, "config.json"), read=opened
    ),
    "record": Specimen(make=lambda folder: within(folder, checkpoint, "unplug.json"), read=opened),
    "record of a forget step": Specimen(
        make=lambda folder: within(folder, partial(checkpoint, role="unlearned"), "unplug.json"),
        read=related,
    ),
    "references": Specimen(
        make=lambda folder: within(folder, references, "references.json"), read=ranked_among
    ),
    "split": Specimen(make=split_file, read=load_split),
    "request": Specimen(
        make=lambda folder: written(requests(), "forget.json")(folder), read=request
    ),
}
