"""Stored weights: a file holds the checkpoint, differences are counted exactly, hostile files are
refused.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unplug.core import ArtifactError, ConversionError
from unplug.export import (
    check_comparable,
    compare_codes,
    export_checkpoint,
    stored_weights,
)
from unplug.export.readers import Stored, shaped, unpacked, weights_of
from unplug.plugins import load_checkpoint

from .conftest import Files

X = Path("age.x")
CLASSIFIER = (13, 384)


@pytest.mark.long
@pytest.mark.parametrize("file", ["age.fp32.tflite", "age.fp16.onnx", "age.fp16.mlpackage"])
def test_a_file_holds_the_checkpoint(by_name: Files, checkpoint: Path, file: str) -> None:
    stored = stored_weights(by_name[file])
    assert all(array.size > 1 and array.dtype.kind == "f" for array in stored.values())
    weights = load_checkpoint(checkpoint).model.state_dict()["classifier.weight"].numpy().ravel()
    alike = [array for array in stored.values() if sorted(array.shape)[-2:] == sorted(CLASSIFIER)]
    # The one layer that nothing is folded into: rounded to the file's type and not otherwise
    # changed.
    wanted = weights.astype(np.float16 if "fp16" in file else np.float32)
    assert any(np.array_equal(array.ravel(), wanted) for array in alike)
    total = sum(array.size for array in stored.values())
    assert 270_000 < total < 280_000  # 274 k parameters, batch norm folded
    same = compare_codes(stored, {name: array.copy() for name, array in stored.items()})
    assert (same.changed, same.untouched, same.unmatched) == (0.0, same.tensors, 0)


@pytest.mark.nightly
def test_two_seeds_share_names_but_no_weights(
    by_name: Files, other_checkpoint: Path, tmp_path: Path
) -> None:
    (other,) = export_checkpoint(other_checkpoint, targets=["onnx"], out=tmp_path)
    change = compare_codes(stored_weights(by_name["age.fp32.onnx"]), stored_weights(other))
    assert change.unmatched == 0 and change.tensors > 50
    assert change.changed is not None and change.changed > 0.99
    # the centres of the age groups are no parameters
    assert change.least is not None and change.least.changed == 0.0


# Counting


def test_differences_are_counted_bit_by_bit() -> None:
    same, single = np.zeros(6, np.int8), np.float32
    before = {"a": np.array([0.0, 1.0, np.nan, 2.0], single), "b": same, "gone": np.ones(3, single)}
    after = {"a": np.array([-0.0, 1.0, np.nan, 3.0], single), "b": same, "new": np.ones(5, single)}
    change = compare_codes(before, after)
    assert change.changed == pytest.approx(2 / 10)
    assert (change.weights, change.tensors, change.untouched) == (10, 2, 1)
    assert (change.unmatched, change.unmatched_weights) == (2, 5)
    assert change.least is not None and (change.least.name, change.least.changed) == ("b", 0.0)
    assert change.most is not None and (change.most.name, change.most.changed) == ("a", 0.5)


@pytest.mark.parametrize("shape, dtype", [((3, 2), "f4"), ((6,), "f4"), ((2, 3), "f2")])
def test_tensors_of_another_shape_or_type_are_not_compared(
    shape: tuple[int, ...], dtype: str
) -> None:
    change = compare_codes({"w": np.zeros((2, 3), np.float32)}, {"w": np.zeros(shape, dtype)})
    assert (change.changed, change.tensors, change.unmatched) == (None, 0, 2)


def test_rounding_hides_what_is_smaller_than_a_step() -> None:
    before = np.random.default_rng(0).normal(size=20_000).astype(np.float32)
    # a quarter of a step of fp16 at the low end of an octave, an eighth at the high
    after = before * np.float32(1 + 2**-13)
    single, half = (
        compare_codes({"w": before.astype(kind)}, {"w": after.astype(kind)}).changed
        for kind in (np.float32, np.float16)
    )
    assert single == 1.0
    # step / value falls from 2^-10 to 2^-11 within an octave: 1/8 to 1/4 of the values cross a
    # boundary.
    assert half is not None and 0.125 < half < 0.25


def test_forms_are_not_mixed(by_name: Files) -> None:
    check_comparable(by_name["age.fp32.onnx"], by_name["age.fp32.onnx"])
    for other in ("age.fp16.onnx", "age.fp32.tflite"):
        with pytest.raises(ArtifactError, match="one target and one precision"):
            check_comparable(by_name["age.fp32.onnx"], by_name[other])


# Hostile files: the reader runs in a child, and whatever it meets comes back as a typed error


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
    by_name: Files, tmp_path: Path, file: str, harm: Callable[[bytes], bytes]
) -> None:
    (tmp_path / file).write_bytes(harm(by_name[file].path.read_bytes()))
    try:
        stored = stored_weights(replace(by_name[file], path=tmp_path / file))
    except (ArtifactError, ConversionError) as error:
        assert file in str(error)
    else:  # nothing but a flatbuffer whose root leads nowhere, or a message without fields
        assert stored == {}


def test_onnx_data_in_another_file_is_refused(by_name: Files, tmp_path: Path) -> None:
    import onnx

    model, path = onnx.load(str(by_name["age.fp32.onnx"].path)), tmp_path / "age.fp32.onnx"
    onnx.save(model, str(path), save_as_external_data=True, location="secret")
    with pytest.raises(ArtifactError, match="lies in another file"):
        stored_weights(replace(by_name["age.fp32.onnx"], path=path))


@pytest.mark.long
def test_a_package_cannot_point_outside_itself(by_name: Files, tmp_path: Path) -> None:
    source = by_name["age.fp16.mlpackage"]
    copy = shutil.copytree(source.path, tmp_path / source.path.name)
    model = next(copy.rglob("*.mlmodel"))
    name, evil = b"@model_path/weights/weight.bin", b"@model_path/../../../../secret"
    assert len(name) == len(evil)
    model.write_bytes(model.read_bytes().replace(name, evil))
    (tmp_path / "secret").write_bytes(b"x" * 4096)
    with pytest.raises(ArtifactError, match="not a file of this package"):
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
        weights_of(X, (Stored(name=name, codes=np.ones(2, np.float32)) for name in "abcde"))


def test_bytes_must_fit_the_shape() -> None:
    raw = struct.pack("<4f", 1, 2, 3, 4)
    assert shaped(X, "w", raw, "float32", [2, 2]).tolist() == [[1, 2], [3, 4]]
    assert unpacked(X, "w", bytes([0b11100100]), 2, [4]).tolist() == [0, 1, 2, 3]
    for shape in ([3], [-2, -2], [2**40, 2**40]):
        with pytest.raises(ArtifactError, match="for the shape"):
            shaped(X, "w", raw, "float32", shape)
    with pytest.raises(ArtifactError, match="for the shape"):
        unpacked(X, "w", bytes(3), 4, [4])
