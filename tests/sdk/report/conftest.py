"""A journey written down by hand: one small JSON of every kind that a report reads."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unplug.sdk.report import collect, render_html

VERSIONS = {"python": "3.11.7", "unplug": "0.1.0"}
SHA = {
    name: (name.encode().hex() + "0" * 64)[:64]
    for name in ("original", "unlearned", "retrained", "file", "split", "data")
}
Json = dict[str, Any]
Write = Callable[..., list[Path]]
Draw = Callable[..., str]


def estimate(value: float, half: float = 0.05) -> Json:
    return {"value": value, "low": value - half, "high": value + half}


def utility(mae: float, n: int) -> Json:
    groups = [
        {"ages": "0-20", "n": n, "accuracy": 0.5, "mae": mae},
        {"ages": "20-100", "n": 0, "accuracy": None, "mae": None},
    ]
    return {
        "n": n,
        "accuracy": estimate(0.613),
        "mae": estimate(mae),
        "loss": 1.25,
        "per_group": groups,
        "per_subject": None,
    }


def audited(
    role: str, auc: float, gap: float | None, shift: float, mae: float, **more: Any
) -> Json:
    rng = np.random.default_rng(len(role))
    attack = {
        "auc": estimate(auc, 0.061),
        "minus_retrained": None if gap is None else estimate(gap, 0.041),
        "threshold_accuracy": 0.587,
        "tpr": {"0.01": None, "0.1": 0.234},
        "forget_scores": [-float(score) for score in rng.gamma(2.0, 0.5, 30) + shift],
        "unseen_scores": [-float(score) for score in rng.gamma(2.0, 0.8, 50)],
    }
    return {
        "name": role,
        "role": role,
        "sha256": SHA.get(role, SHA["file"]),
        "target": None,
        "precision": None,
        "utility": {
            "retain": utility(mae - 1, 60),
            "forget": utility(mae, 30),
            "test": utility(mae, 50),
        },
        "attacks": {"loss": attack, "rmia": {**attack, "auc": estimate(auc - 0.02, 0.061)}},
        "distance": None if gap is None else {"forget": estimate(2.348), "test": estimate(1.2)},
        "logistic_accuracy": estimate(0.571),
        "worst_subject": worst(1.83),
        **({} if role in ("original", "retrained") else {"retain_privacy": retain()}),
        "relearning": relearning() if gap else None,
        "people": [
            {"samples": 3, "confidence": standing(0.842, 0.201), "error": standing(-1.2, 0.4)}
        ],
        **more,
    }


def relearning() -> Json:
    return {"passes": [640, 704], "mean": estimate(672.0, 31.0), "target_loss": 1.1, "reason": None}


def worst(value: float) -> Json:
    return {
        "value": value,
        "null_low": 0.71,
        "null_high": 3.14,
        "p_value": 0.4,
        "auc": 0.764,
        "subjects": 9,
        "samples": 3,
    }


def retain() -> Json:
    names = ("auc", "original", "retrained")
    values = {
        name: estimate(value) for name, value in zip(names, (0.641, 0.652, 0.633), strict=True)
    }
    apart = {"minus_original": estimate(-0.011, 0.02), "minus_retrained": estimate(0.008, 0.02)}
    return {**values, **apart, "samples": 60}


def distance(years: float) -> Json:
    return {
        name: {"years": estimate(years), "variation": estimate(years / 10, 0.01)}
        for name in ("forget", "test")
    }


def rounding(kept: float = 0.991, half: float = 0.012, shift: float = 0.002) -> Json:
    tensor = {"name": "stem", "weights": 16, "changed": 0.125}
    codes = {
        "changed": 0.337,
        "weights": 274_036,
        "tensors": 64,
        "untouched": 1,
        "unmatched": 0,
        "unmatched_weights": 0,
        "least": tensor,
        "most": {**tensor, "changed": 0.871},
    }
    return {
        "model": "age.fp16.tflite",
        "sha256": SHA["file"],
        "target": "litert",
        "precision": "fp16",
        "original_sha256": SHA["data"],
        "original_given": False,
        "codes": codes,
        "retrained_codes": {**codes, "changed": 0.948},
        "distance": distance(3.31),
        "retrained": distance(4.42),
        "checkpoint": distance(3.35),
        "kept": estimate(kept, half),
        "minus_retrained": estimate(-0.11),
        "auc_shift": {"loss": estimate(shift, 0.003)},
        "notes": ["a note on the file"],
    }


def audit() -> Json:
    file = {"name": "age.fp16.tflite", "target": "litert", "precision": "fp16"}
    models = [
        audited("original", 0.812, 0.3, -0.4, 6.5),
        audited("unlearned", 0.553, 0.021, 0.0, 6.52),
        audited("retrained", 0.532, None, 0.1, 6.4),
        audited("artifact", 0.547, 0.015, 0.0, 6.51, **file),
    ]
    return {
        "schema": "unplug-audit/1",
        "models": models,
        "data": {"spec": "synth:n=140", "digest": SHA["data"]},
        "forget": {"samples": 30, "subjects": 9},
        "oracle_band": {"loss": [0.511, 0.541]},
        "skipped": {},
        "alarms": [{"kind": "not-forgotten", "model": "unlearned", "message": "test error rose"}],
        "settings": {"split_sha256": SHA["split"], "confidence": 0.95},
        "versions": VERSIONS,
        "rounding": [rounding()],
    }


def record(role: str) -> Json:
    split: Json = {
        "schema": "unplug-split/1",
        "sha256": SHA["split"],
        "seed": 3,
        "subject_disjoint": True,
        "data_digest": SHA["data"],
        "train": ["a", "b"],
        "validation": ["c"],
        "test": ["d"],
        "forget": ["b"],
    }
    raw: Json = {
        "schema": "unplug-checkpoint/1",
        "weights_sha256": SHA[role],
        "role": role,
        "seed": 3,
        "data": {"spec": "synth:n=140"},
        "recipe": {"epochs": 2},
        "split": split,
        "cost": {"forward": 4321, "backward": 4321, "wall_s": 61.0, "device": "cpu"},
        "versions": VERSIONS,
        "metrics": {},
    }
    if role != "unlearned":
        rows = [
            {"epoch": n, "train_loss": 3.0 / n, "validation_mae": 9.0 - n, "lr": 0.1}
            for n in (1, 2)
        ]
        return raw | {"history": rows}
    passes = {"forward": 137, "backward": 137, "wall_s": 2.1}
    raw["cost"] |= passes
    retrain = {"forward": 4000, "backward": 4000, "wall_s": 60.0, "source": "measured beside it"}
    cost = {**passes, "compute_fraction": 0.0343, "wall_fraction": 0.0352, "budget": 0.05}
    step = {"method": "msg", "settings": {"lr": 0.1}, "samples": 30, "set_sha256": SHA["file"]}
    return raw | {"forget": {**step, "cost": {**cost, "retrain": retrain}}}


def parity() -> Json:
    row = {
        "file": "age.fp16.tflite",
        "artifact_sha256": SHA["file"],
        "target": "litert",
        "precision": "fp16",
        "output": "expected_age",
        "status": "pass",
        "reason": None,
        "threshold_db": 60.0,
        "psnr_db": 71.93,
        "exact": False,
        "max_abs_error": 0.1,
        "cosine": 1.0,
        "runtime": "litert",
        "runtime_version": "2.3.0",
    }
    unable = {
        **row,
        "output": "age_logits",
        "status": "not_run",
        "psnr_db": None,
        "reason": "no runtime here",
    }
    return {
        "schema": "unplug-parity/1",
        "checkpoint_sha256": SHA["unlearned"],
        "model_type": "age",
        "inputs_sha256": SHA["data"],
        "samples": 4,
        "rows": [row, unable],
        "versions": VERSIONS,
        "git_revision": "abcdef123456",
    }


def bench() -> Json:
    runs = [1.2, 1.3, 1.25, 1.9]
    summary = {"count": 4, "p50": 1.274, "p90": 1.72, "p95": 1.8, "p99": None}
    summary |= {"mean": 1.4, "std": 0.3, "min": 1.2, "max": 1.9}
    repeat = {
        "init_ms": 3.0,
        "first_inference_ms": 2.0,
        "latencies_ms": runs,
        "enqueue_ms": 0.1,
        "read_back_ms": 0.1,
        "summary": summary,
        "parity_db": 71.0,
        "parity_reason": None,
    }
    row = {
        "file": "age.fp16.tflite",
        "model_type": "age",
        "model_sha256": SHA["unlearned"],
        "artifact_sha256": SHA["file"],
        "target": "litert",
        "precision": "fp16",
        "where": "host",
        "device": "Test Machine 9",
        "os": "Linux",
        "runtime": "litert",
        "runtime_version": "2.3.0",
        "threads": 2,
        "delegate_asked": "cpu",
        "delegate_got": "XNNPACK",
        "status": "ok",
        "valid": True,
        "reasons": [],
        "warmup": 1,
        "iterations": 4,
        "repeats": [repeat],
        "summary": summary,
        "spread": 0.0,
        "median_ms": 1.274,
        "bytes": 148_123,
        "median_ci95_ms": [1.21, 1.31],
        "peak_memory_bytes": 51_000_000,
        "parity_reference": "checkpoint",
        "inputs_sha256": SHA["data"],
        "flops": 1000,
        "nodes_delegated": 41,
        "nodes_total": 43,
        "partitions": 2,
    }
    return {
        "schema": "unplug-bench/1",
        "rows": [row],
        "seed": 0,
        "versions": VERSIONS,
        "git_revision": None,
    }


def card() -> Json:
    tensor = {"name": "image", "shape": [1, 3, 32, 32], "layout": "NCHW", "dtype": "float32"}
    tensor |= {"range": [0.0, 1.0], "colour": "RGB", "description": ""}
    return {
        "schema": "unplug-artifact/1",
        "target": "litert",
        "precision": "fp16",
        "file": "age.fp16.tflite",
        "sha256": SHA["file"],
        "bytes": 148_123,
        "model_type": "age",
        "iospec": {"inputs": [tensor], "outputs": [{**tensor, "name": "age"}]},
        "config": {},
        "checkpoint_sha256": SHA["unlearned"],
        "flops": 5_400_000,
        "versions": VERSIONS,
        "parameters": 290_000,
        "seconds": 1.0,
        "prepare_seconds": 2.0,
    }


def png(side: int = 8) -> str:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def faces() -> Json:
    answers = {"original": 30.4, "unlearned": 41.7, "retrained": 40.9}
    return {
        "schema": "unplug-faces/2",
        "faces": [{"png": png(), "age": 31.0, "predictions": answers} for _ in range(2)],
    }


def tried(passed: bool, failed: list[str], **more: Any) -> Json:
    return {
        "request": "5" * 64,
        "method": "msg",
        "budget": 0.05,
        "options": {"lr": "0.002"},
        "seed": 0,
        "gates": {},
        "unlearned_sha256": SHA["unlearned"],
        "passed": passed,
        "failed": failed,
        **more,
    }


def standing(value: float, p_value: float) -> Json:
    others = [0.113 + 0.462 * (step - 7.5) / 5 for step in range(16)]
    return {
        "value": value,
        "mean": 0.113,
        "spread": 0.462,
        "low": -0.71,
        "high": 0.94,
        "rank": 5,
        "models": 16,
        "people": 60,
        "p_value": p_value,
        "others": others,
    }


def release() -> Json:
    gate = {
        "name": "utility",
        "value": 0.125,
        "limit": 1.0,
        "comparison": "<=",
        "passed": True,
        "unit": " years",
        "detail": "test MAE",
    }
    open_gate = {**gate, "name": "parity", "value": None, "passed": False, "comparison": ">="}
    return {
        "tries": [
            tried(False, ["forgotten (loss)"]),
            tried(True, [], seed=3, gates={"max_mae_above_retrained": 2.5}),
        ],
        "schema": "unplug-release/1",
        "gates": [gate, open_gate],
        "passed": False,
        "title": "face-age",
        "seconds": {"audit": 2.5, "export": 7.5},
    }


def journey() -> dict[str, Json]:
    records = {f"{role}/unplug": record(role) for role in ("original", "unlearned", "retrained")}
    return {
        "audit": audit(),
        **records,
        "parity": parity(),
        "bench": bench(),
        "card": card(),
        "faces": faces(),
        "release": release(),
    }


@pytest.fixture
def parts() -> dict[str, Json]:
    """Every file of the journey by name; fresh, to be changed at will."""
    return journey()


def write_all(folder: Path, values: Mapping[str, Any]) -> list[Path]:
    """Writes named JSON values and returns their paths."""
    paths = []
    for name, value in values.items():
        paths.append(folder / f"{name}.json")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        paths[-1].write_text(json.dumps(value), encoding="utf-8")
    return paths


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return lambda **values: write_all(tmp_path, values)


@pytest.fixture
def draw(write: Write) -> Draw:
    """The page of named JSON values."""
    return lambda **values: render_html(collect(write(**values)), title="t")


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The whole journey as one page."""
    paths = write_all(tmp_path_factory.mktemp("journey"), journey())
    return render_html(collect(paths), title="The title")
