"""Export of a real model: files, cards, names inside the files, and what must be refused."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.exported import require_installed

from unplug.core import (
    CheckpointError,
    ConversionError,
    InputError,
    IOSpec,
    MissingExtraError,
    OutputError,
    Reply,
    TensorSpec,
)
from unplug.export import (
    TARGETS,
    TargetSource,
    count_work,
    export_checkpoint,
    load_artifact,
)
from unplug.plugins import load_checkpoint

from .conftest import Files, in_child

MAX_HALF_RATIO = 0.7
"""Weights halve; graph and biases do not, and the nano model at 32 px has little else."""


@pytest.mark.parametrize(
    "suffix",
    ["onnx", *(pytest.param(name, marks=pytest.mark.long) for name in ("tflite", "mlpackage"))],
)
def test_files_and_cards(by_name: Files, checkpoint: Path, suffix: str) -> None:
    full, half = (by_name[f"age.{precision}.{suffix}"] for precision in ("fp32", "fp16"))
    assert half.card.bytes < MAX_HALF_RATIO * full.card.bytes
    source = load_checkpoint(checkpoint)
    for artifact in (full, half):
        card = load_artifact(artifact.path).card
        assert card == artifact.card
        assert (card.iospec, card.checkpoint_sha256) == (source.model.iospec, source.sha256)
        assert card.config["image_size"] == 32
        assert card.config["age_edges"] == list(source.model.age_edges)
        assert card.config["age_centers"] == pytest.approx(source.model.age_centers.tolist())
        assert {"torch", *TARGETS.get(card.target).distributions} <= set(card.versions)
        assert card.flops is not None and card.flops > 1e6
        assert card.parameters == sum(tensor.numel() for tensor in source.model.parameters())
        assert card.seconds >= 0 and card.prepare_seconds > 0
    files = [name for name in by_name if name.endswith(suffix)]
    assert len(list(full.path.parent.iterdir())) == 2 * len(files), "a temporary file is left"


@pytest.mark.parametrize(
    ("target", "facts"),
    [
        # MLMultiArrayDataTypeFloat32, also at the edges of the half-precision file; iOS 17
        pytest.param(
            "coreml",
            [[["image"], ["age_logits", "expected_age"]], [65568], 8],
            marks=pytest.mark.long,
        ),
        # no source path, opset 18
        ("onnx", [False, 18]),
    ],
)
def test_what_files_say(by_name: Files, target: str, facts: list[Any]) -> None:
    suffix = TARGETS.get(target).suffix
    paths = [str(by_name[f"age.{precision}{suffix}"].path) for precision in ("fp32", "fp16")]
    assert in_child(f"{target}_facts", paths=paths).values["facts"] == [facts] * 2


STATIC = {"precisions": ["int8-static"]}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"targets": ["onxx"]}, InputError, "target 'onxx': no such name. Did you mean onnx"),
        ({"precisions": ["fp64"]}, InputError, "precision 'fp64': no such name"),
        ({"targets": []}, InputError, "no target or no precision"),
        ({"precisions": []}, InputError, "no target or no precision"),
        (
            {"targets": ["executorch"], "precisions": ["fp32", "fp16"]},
            InputError,
            r"executorch fp16: this target cannot hold this precision\. Use one of: fp32, int8-st",
        ),
        ({"workers": 0}, InputError, "workers 0"),
        ({"ios": 12}, InputError, "iOS 12: Core ML files cannot be made for it"),
        (STATIC, InputError, "activations get their ranges from samples, and none are given"),
        (
            {**STATIC, "calibration": {"image": np.full((4, 3, 32, 32), 0.5, np.float32)}},
            InputError,
            "all its numbers are 0.5",
        ),
        ({"checkpoint": Path("/nowhere")}, CheckpointError, "no such folder"),
    ],
)
def test_bad_requests_are_refused_before_any_work(
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.setattr("unplug.export.exporter.call_in_child", None)
    monkeypatch.setattr("unplug.export.exporter.require_modules", lambda *_: None)
    request = {"checkpoint": checkpoint, "targets": ["onnx"], "out": tmp_path, **change}
    with pytest.raises(error, match=message):
        export_checkpoint(request.pop("checkpoint"), **request)
    assert not any(tmp_path.iterdir())


def test_a_missing_converter_names_its_extra(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.core.extras.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r'install .*\[executorch\]"'):
        export_checkpoint(checkpoint, targets=["executorch"], out=tmp_path)


def test_unwritable_out(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError, match="file"):
        export_checkpoint(checkpoint, targets=["onnx"], out=tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.nightly
@pytest.mark.parametrize("target", list(TARGETS))
def test_an_operator_that_the_target_lacks_is_named(target: str) -> None:
    require_installed(target)
    with pytest.raises(ConversionError, match=r"does not (have|take operator) \S*bessel_j0"):
        in_child("odd", target=target)


class Dynamic(torch.nn.Module):
    """As many outputs as there are positive inputs."""

    def forward(self, x_BC: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x_BC[x_BC > 0]}


def test_shapes_that_depend_on_numbers_are_refused() -> None:
    """Core ML's and ONNX's converters take such a model, and no app that trusts the card could read
    what it gives.
    """
    x, y = (TensorSpec(name=name, shape=(1, 4), layout="NC") for name in "xy")
    iospec = IOSpec(inputs=(x,), outputs=(y,))
    with pytest.raises(InputError, match=r"y came out as \[0\], and its IOSpec says \[1, 4\]"):
        count_work(TargetSource(model=Dynamic(), iospec=iospec, model_type="odd"))


@pytest.mark.long
def test_exporting_again_replaces_what_was_exported(
    checkpoint: Path,
    by_name: Files,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = by_name["age.fp32.mlpackage"]
    name = first.path.name
    shutil.copytree(first.path, tmp_path / name)
    shutil.copy(f"{first.path}.json", tmp_path)
    (tmp_path / name / "Data" / "older").touch()

    def converted(_function: str, values: dict[str, Any], *_: object, **__: object) -> Reply:
        shutil.copytree(first.path, Path(values["staging"]) / name)
        written = [{"precision": "fp32", "file": name, "seconds": 0.0}]
        iospec = first.card.iospec.to_dict()
        told = {"iospec": iospec, "written": written, "correction": None}
        return Reply(values=asdict(first.card) | told)

    monkeypatch.setattr("unplug.export.exporter.call_in_child", converted)
    (again,) = export_checkpoint(checkpoint, targets=["coreml"], precisions=["fp32"], out=tmp_path)
    assert again.path == tmp_path / name and not (again.path / "Data" / "older").exists()
    assert load_artifact(again.path).card == again.card
