"""Export of a real model: files, cards, names inside the files, and what must be refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

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
    call_in_child,
)
from unplug.export import (
    TARGETS,
    Artifact,
    TargetSource,
    count_work,
    export_checkpoint,
    load_artifact,
)
from unplug.plugins import load_checkpoint

MAX_HALF_RATIO = (
    0.7  # weights halve; graph and biases do not, and the nano model at 32 px has little else
)


@pytest.mark.parametrize(
    "suffix", ["tflite", "onnx", pytest.param("mlpackage", marks=pytest.mark.long)]
)
def test_files_and_cards(by_name: Mapping[str, Artifact], checkpoint: Path, suffix: str) -> None:
    full, half = (by_name[f"age.{precision}.{suffix}"] for precision in ("fp32", "fp16"))
    assert half.card.bytes < MAX_HALF_RATIO * full.card.bytes
    source = load_checkpoint(checkpoint)
    for artifact in (full, half):
        card = load_artifact(artifact.path).card
        assert card == artifact.card
        assert card.iospec == source.model.iospec
        assert card.checkpoint_sha256 == source.sha256
        assert card.config["image_size"] == 32
        assert card.config["age_edges"] == list(source.model.age_edges)
        assert card.config["age_centers"] == pytest.approx(source.model.age_centers.tolist())
        assert card.versions["torch"] and set(TARGETS.get(card.target).distributions) <= set(
            card.versions
        )
        assert card.flops is not None and card.flops > 1e6
        assert card.parameters == sum(item.numel() for item in source.model.parameters())
        assert card.seconds >= 0 and card.prepare_seconds > 0
    files = [name for name in by_name if name.endswith(suffix)]
    assert len(list(full.path.parent.iterdir())) == 2 * len(files), (
        "temporary files were left behind"
    )


NAMES = """
from unplug.core import Reply

def coreml(job):
    import coremltools
    found = []
    for path in job.values["paths"]:
        spec = coremltools.utils.load_spec(path)
        sides = (spec.description.input, spec.description.output)
        kinds = {item.type.multiArrayType.dataType for side in sides for item in side}
        names = [[item.name for item in side] for side in sides]
        found.append({"names": names, "kinds": sorted(kinds), "version": spec.specificationVersion})
    return Reply(values={"found": found})

def onnx(job):
    import onnx
    model = onnx.load(job.values["path"])
    onnx.checker.check_model(model, full_check=True)
    text = job.values["home"].encode()
    return Reply(values={"leaks": text in model.SerializeToString(), "opset": model.opset_import[0].version})
"""


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "names_in_files.py").write_text(NAMES)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return lambda kind, **values: call_in_child(f"names_in_files:{kind}", values, what=kind).values


@pytest.mark.long
def test_core_ml_names_and_types(by_name: Mapping[str, Artifact], names: Any) -> None:
    paths = [str(by_name[f"age.{precision}.mlpackage"].path) for precision in ("fp32", "fp16")]
    for found in names("coreml", paths=paths)["found"]:
        assert found["names"] == [["image"], ["age_logits", "expected_age"]]
        # MLMultiArrayDataTypeFloat32, also at the edges of the half-precision file
        assert found["kinds"] == [65568]
        assert found["version"] == 8  # iOS 17


def test_onnx_holds_no_source_paths(by_name: Mapping[str, Artifact], names: Any) -> None:
    for precision in ("fp32", "fp16"):
        path = str(by_name[f"age.{precision}.onnx"].path)
        assert names("onnx", path=path, home=str(Path(__file__).parents[2])) == {
            "leaks": False,
            "opset": 18,
        }


def test_bad_requests_are_refused_before_any_work(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "unplug.export.exporter.call_in_child",
        lambda *_args, **_kwargs: pytest.fail("work was started"),
    )
    requests: list[tuple[dict[str, Any], str]] = [
        ({"targets": ["onxx"]}, "target 'onxx': no such name. Did you mean onnx"),
        ({"precisions": ["fp64"]}, "precision 'fp64': no such name"),
        ({"targets": []}, "no target or no precision"),
        ({"precisions": []}, "no target or no precision"),
        ({"workers": 0}, "workers 0"),
    ]
    for change, message in requests:
        with pytest.raises(InputError, match=message):
            export_checkpoint(checkpoint, **{"out": tmp_path, "targets": ["onnx"], **change})
    with pytest.raises(CheckpointError, match="no such folder"):
        export_checkpoint(tmp_path / "none", out=tmp_path)


def test_unsupported_pair(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TARGETS, "get", lambda _name: OnlyFp32())
    with pytest.raises(
        InputError, match=r"onnx fp16: this target cannot hold this precision\. Use one of: fp32"
    ):
        export_checkpoint(checkpoint, targets=["onnx"], precisions=["fp16"], out=tmp_path)


class OnlyFp32:
    name, suffix, precisions, modules, extra = (
        "onnx",
        ".onnx",
        ("fp32",),
        ("no_such_module_here",),
        "onnx",
    )


def test_missing_converter(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TARGETS, "get", lambda _name: OnlyFp32())
    with pytest.raises(MissingExtraError, match=r'install .*\[onnx\]"'):
        export_checkpoint(checkpoint, targets=["onnx"], out=tmp_path)


def test_unwritable_out(checkpoint: Path, tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("in the way")
    with pytest.raises(OutputError, match="file"):
        export_checkpoint(checkpoint, targets=["onnx"], out=taken / "below")
    assert taken.read_text() == "in the way"


@pytest.mark.long
def test_broken_checkpoint_is_reported_by_its_own_error(checkpoint: Path, tmp_path: Path) -> None:
    copy = tmp_path / "broken"
    shutil.copytree(checkpoint, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "size": "giant"}))
    with pytest.raises(CheckpointError, match="giant"):
        export_checkpoint(copy, targets=["onnx"], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


ODD = """
from pathlib import Path
import torch
from unplug.core import Reply
from unplug.export.targets import TARGETS
from unplug.export.targets.base import Source
from unplug.core import IOSpec, TensorSpec

class Odd(torch.nn.Module):
    def forward(self, x):
        return {"y": torch.special.bessel_j0(x)}

def convert(job):
    tensors = [TensorSpec(name=name, shape=(1, 4), layout="NC") for name in "xy"]
    source = Source(model=Odd(), iospec=IOSpec(inputs=tuple(tensors[:1]), outputs=tuple(tensors[1:])), model_type="odd")
    target = TARGETS.get(job.values["target"])
    target.write(target.prepare(source), "fp32", job.folder / f"odd{target.suffix}", {})
    return Reply(values={})
"""


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.parametrize("target", list(TARGETS))
def test_an_operator_that_the_target_lacks_is_named(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_installed(target)
    (tmp_path / "odd_model.py").write_text(ODD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(ConversionError, match=r"the target does not have \S*bessel_j0"):
        call_in_child("odd_model:convert", {"target": target}, what=f"odd to {target}")


class Dynamic(torch.nn.Module):
    """As many outputs as there are positive inputs."""

    def forward(self, x_BC: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x_BC[x_BC > 0]}


def test_shapes_that_depend_on_numbers_are_refused() -> None:
    """Core ML's and ONNX's converters take such a model, and no app that trusts the card could read
    what it gives.
    """
    x, y = (TensorSpec(name=name, shape=(1, 4), layout="NC") for name in "xy")
    source = TargetSource(
        model=Dynamic(), iospec=IOSpec(inputs=(x,), outputs=(y,)), model_type="odd"
    )
    with pytest.raises(
        InputError, match=r"its output y came out as \[0\], and its IOSpec says \[1, 4\]"
    ):
        count_work(source)


@pytest.mark.long
def test_exporting_again_replaces_what_was_exported(
    checkpoint: Path,
    by_name: Mapping[str, Artifact],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = by_name["age.fp32.mlpackage"]
    shutil.copytree(first.path, tmp_path / first.path.name)
    shutil.copy(f"{first.path}.json", tmp_path)
    (tmp_path / first.path.name / "Data" / "older").touch()

    def converted(_function: str, values: dict[str, Any], *_: object, **__: object) -> Reply:
        shutil.copytree(first.path, Path(values["staging"]) / first.path.name)
        card = asdict(first.card) | {"iospec": first.card.iospec.to_dict()}
        return Reply(
            values=card
            | {"written": [{"precision": "fp32", "file": first.path.name, "seconds": 0.0}]}
        )

    monkeypatch.setattr("unplug.export.exporter.call_in_child", converted)
    (again,) = export_checkpoint(checkpoint, targets=["coreml"], precisions=["fp32"], out=tmp_path)
    assert again.path == tmp_path / first.path.name and not (again.path / "Data" / "older").exists()
    assert load_artifact(again.path).card == again.card
