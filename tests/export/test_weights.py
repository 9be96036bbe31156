"""Stored weights: a file holds the checkpoint, differences are counted exactly, hostile files are
refused.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unplug.core import ArtifactError, ConversionError
from unplug.export import (
    Artifact,
    check_comparable,
    compare_codes,
    export_checkpoint,
    stored_weights,
)
from unplug.export.readers import Stored, shaped, unpacked, weights_of
from unplug.plugins import load_checkpoint

X = Path("age.x")
CLASSIFIER = (13, 384)
FILES = ["age.fp32.tflite", "age.fp16.onnx", "age.fp16.mlpackage"]


@pytest.mark.long
@pytest.mark.parametrize("file", FILES)
def test_a_file_holds_the_checkpoint(
    by_name: Mapping[str, Artifact], checkpoint: Path, file: str
) -> None:
    found = stored_weights(by_name[file])
    assert all(array.size > 1 and array.dtype.kind == "f" for array in found.values())
    weights = load_checkpoint(checkpoint).model.state_dict()["classifier.weight"].detach().numpy()
    alike = [
        array
        for array in found.values()
        if array.size == weights.size and sorted(array.shape)[-2:] == sorted(CLASSIFIER)
    ]
    precision = np.float16 if "fp16" in file else np.float32
    # The one layer that nothing is folded into: rounded to the file's type and not otherwise
    # changed.
    assert any(
        np.array_equal(array.reshape(-1), weights.astype(precision).reshape(-1)) for array in alike
    )
    total = sum(array.size for array in found.values())
    assert 270_000 < total < 280_000  # 274 k parameters, batch norm folded
    same = compare_codes(found, {name: array.copy() for name, array in found.items()})
    assert (same.changed, same.untouched, same.unmatched) == (0.0, same.tensors, 0)


@pytest.mark.nightly
def test_two_seeds_share_names_but_no_weights(
    by_name: Mapping[str, Artifact], other_checkpoint: Path, tmp_path: Path
) -> None:
    other = export_checkpoint(
        other_checkpoint, targets=("onnx",), precisions=("fp32",), out=tmp_path
    )[0]
    found = compare_codes(stored_weights(by_name["age.fp32.onnx"]), stored_weights(other))
    assert found.unmatched == 0 and found.tensors > 50
    assert found.changed is not None and found.changed > 0.99
    # the centres of the age groups are no parameters
    assert found.least is not None and found.least.changed == 0.0


# Counting


def test_differences_are_counted_bit_by_bit() -> None:
    before = {
        "a": np.array([0.0, 1.0, np.nan, 2.0], np.float32),
        "b": np.zeros(6, np.int8),
        "gone": np.ones(3, np.float32),
    }
    after = {
        "a": np.array([-0.0, 1.0, np.nan, 3.0], np.float32),
        "b": np.zeros(6, np.int8),
        "new": np.ones(5, np.float32),
    }
    found = compare_codes(before, after)
    assert found.changed == pytest.approx(2 / 10)
    assert (found.weights, found.tensors, found.untouched) == (10, 2, 1)
    assert (found.unmatched, found.unmatched_weights) == (2, 5)
    assert found.least is not None and (found.least.name, found.least.changed) == ("b", 0.0)
    assert found.most is not None and (found.most.name, found.most.changed) == ("a", 0.5)


@pytest.mark.parametrize(
    "after",
    [np.zeros((3, 2), np.float32), np.zeros(6, np.float32), np.zeros((2, 3), np.float16)],
    ids=["turned", "flat", "fp16"],
)
def test_tensors_of_another_shape_or_type_are_not_compared(after: np.ndarray) -> None:
    found = compare_codes({"w": np.zeros((2, 3), np.float32)}, {"w": after})
    assert (found.changed, found.tensors, found.unmatched) == (None, 0, 2)


def test_rounding_hides_what_is_smaller_than_a_step() -> None:
    rng = np.random.default_rng(0)
    before = rng.normal(size=20_000).astype(np.float32)
    # a quarter of a step of fp16 at the low end of an octave, an eighth at the high
    after = before * np.float32(1 + 2**-13)
    single = compare_codes({"w": before}, {"w": after}).changed
    half = compare_codes({"w": before.astype(np.float16)}, {"w": after.astype(np.float16)}).changed
    assert single == 1.0
    # step / value falls from 2^-10 to 2^-11 within an octave: 1/8 to 1/4 of the values cross a
    # boundary.
    assert half is not None and 0.125 < half < 0.25


def test_forms_are_not_mixed(by_name: Mapping[str, Artifact]) -> None:
    check_comparable(by_name["age.fp32.onnx"], by_name["age.fp32.onnx"])
    for other in ("age.fp16.onnx", "age.fp32.tflite"):
        with pytest.raises(ArtifactError, match="one target and one precision"):
            check_comparable(by_name["age.fp32.onnx"], by_name[other])


# Hostile files: the reader runs in a child, and whatever it meets comes back as a typed error


def harmed(artifact: Artifact, folder: Path, harm: Callable[[bytes], bytes]) -> Artifact:
    path = folder / artifact.path.name
    path.write_bytes(harm(artifact.path.read_bytes()))
    return replace(artifact, path=path)


@pytest.mark.long
@pytest.mark.parametrize("file", ["age.fp32.tflite", "age.fp16.tflite", "age.fp32.onnx"])
@pytest.mark.parametrize(
    "harm",
    [
        lambda raw: b"",
        lambda raw: raw[: len(raw) // 2],
        lambda raw: raw[:64] + bytes([255]) * (len(raw) - 64),
        lambda raw: b"\xff\xff\xff\x7f" + raw[4:],
    ],
    ids=["empty", "half", "ones", "far"],
)
def test_broken_files_are_refused(
    by_name: Mapping[str, Artifact], tmp_path: Path, file: str, harm: Callable[[bytes], bytes]
) -> None:
    broken = harmed(by_name[file], tmp_path, harm)
    try:
        found = stored_weights(broken)
    except (ArtifactError, ConversionError) as error:
        assert broken.path.name in str(error)
    # nothing but a flatbuffer whose root leads nowhere, or a message without fields, may read as
    # empty
    else:
        assert found == {}


def test_onnx_data_in_another_file_is_refused(
    by_name: Mapping[str, Artifact], tmp_path: Path
) -> None:
    import onnx

    model = onnx.load(str(by_name["age.fp32.onnx"].path))
    onnx.save(model, str(tmp_path / "age.fp32.onnx"), save_as_external_data=True, location="secret")
    with pytest.raises(ArtifactError, match="lies in another file"):
        stored_weights(replace(by_name["age.fp32.onnx"], path=tmp_path / "age.fp32.onnx"))


@pytest.mark.long
def test_a_package_cannot_point_outside_itself(
    by_name: Mapping[str, Artifact], tmp_path: Path
) -> None:
    source = by_name["age.fp16.mlpackage"]
    copy = tmp_path / source.path.name
    shutil.copytree(source.path, copy)
    model = next(copy.rglob("*.mlmodel"))
    name, evil = b"@model_path/weights/weight.bin", b"@model_path/../../../../secret"
    assert len(name) == len(evil)
    model.write_bytes(model.read_bytes().replace(name, evil))
    (tmp_path / "secret").write_bytes(b"x" * 4096)
    with pytest.raises(ArtifactError, match="no file of this package"):
        stored_weights(replace(source, path=copy))


# Bounds


def test_constants_that_are_no_weights_are_left_out() -> None:
    constants = [
        Stored(name="w", codes=np.ones(4, np.float16)),
        Stored(name="six", codes=np.float32(6.0).reshape(())),
        Stored(name="shape", codes=np.array([1, 2, 3], np.int64)),
        Stored(name="q", codes=np.array([1, 2, 3], np.int8), quantized=True),
    ]
    assert sorted(weights_of(X, constants)) == ["q", "w"]
    with pytest.raises(ArtifactError, match="two of its constants"):
        weights_of(X, [constants[0], constants[0]])


def test_a_file_that_claims_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unplug.export.readers.MAX_TENSORS", 3)
    with pytest.raises(ArtifactError, match="more than 3 constants"):
        weights_of(
            X, (Stored(name=str(number), codes=np.ones(2, np.float32)) for number in range(5))
        )


def test_bytes_must_fit_the_shape() -> None:
    raw = struct.pack("<4f", 1, 2, 3, 4)
    assert shaped(X, "w", raw, "float32", [2, 2]).tolist() == [[1, 2], [3, 4]]
    for shape in ([3], [-2, -2], [2**40, 2**40]):
        with pytest.raises(ArtifactError, match="for the shape"):
            shaped(X, "w", raw, "float32", shape)
    assert unpacked(X, "w", bytes([0b11100100]), 2, [4]).tolist() == [0, 1, 2, 3]
    with pytest.raises(ArtifactError, match="for the shape"):
        unpacked(X, "w", bytes(3), 4, [4])
