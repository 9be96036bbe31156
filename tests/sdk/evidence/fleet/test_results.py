"""Result files are hostile input."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from unplug.core import InputError
from unplug.sdk.evidence.fleet import (
    FleetJob,
    Order,
    Result,
    has_result,
    pack,
    read_result,
    write_result,
)
from unplug.sdk.evidence.fleet import result as results

ARRAY = {"a": np.arange(6, dtype=np.float32).reshape(2, 3)}
RECORD = {
    "schema": "unplug-fleet/1",
    "name": "job",
    "fingerprint": "f",
    "given": "g",
    "facts": {"x": 1},
}


def packed(result: Any = None, name: str = "job") -> bytes:
    order = Order(job=FleetJob(name=name, target="a:b"), fingerprint="f", given="g")
    return pack(result or Result(tensors=ARRAY, facts={"x": 1}), order)


def refused(folder: Path, name: str = "job") -> str:
    with pytest.raises(InputError) as caught:
        read_result(folder, name)
    return str(caught.value)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint8", "uint16", "float16", "float32", "float64"]
)
def test_round_trip(dtype: str, tmp_path: Path) -> None:
    value = np.array([[0, 1], [1, 0]], dtype)
    write_result(
        tmp_path,
        "job",
        packed(Result(tensors={"a": value, "empty": value[:0]}, facts={"deep": [{"ä": None}]})),
    )
    back = read_result(tmp_path, "job")
    assert back.tensors["a"].dtype == value.dtype and np.array_equal(back.tensors["a"], value)
    assert back.tensors["empty"].shape == (0, 2)
    assert back.facts == {"deep": [{"ä": None}]}


def test_facts_and_files_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "MAX_HEADER_BYTES", 2000)
    with pytest.raises(ValueError, match="put long lists into tensors"):
        packed(Result(facts={"x": "y" * 1000}))
    with (tmp_path / "job.safetensors").open("wb") as handle:
        handle.truncate(results.MAX_RESULT_BYTES + 1)  # sparse
    assert "larger than" in refused(tmp_path)
    (tmp_path / "job.safetensors").write_bytes((2**40).to_bytes(8, "little") + b"{}")
    assert "header is larger" in refused(tmp_path)


def test_absent_irregular_and_renamed(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path)
    write_result(tmp_path, "job", packed(name="other"))
    assert "the result of job 'other'" in refused(tmp_path)
    assert not has_result(tmp_path, "job", "g")
    (tmp_path / "folder.safetensors").mkdir()
    assert "not a regular file" in refused(tmp_path, "folder")
    os.mkfifo(tmp_path / "pipe.safetensors")  # opening it would wait for ever
    assert "not a regular file" in refused(tmp_path, "pipe")
    (tmp_path / "zero.safetensors").symlink_to("/dev/zero")
    assert "not a regular file" in refused(tmp_path, "zero")
    assert not has_result(tmp_path, "pipe", "g")


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        {"other": "x"},
        {"unplug": "not JSON"},
        {"unplug": "[" * 100_000},
        {"unplug": "null"},
        {"unplug": "[]"},
        *(
            {"unplug": json.dumps({**RECORD, key: value})}
            for key, value in [("schema", "x/1"), ("facts", []), ("given", 3)]
        ),
        *({"unplug": json.dumps({**RECORD, "name": value})} for value in ("other", None, 1)),
        {"unplug": json.dumps({key: value for key, value in RECORD.items() if key != "facts"})},
        {"unplug": json.dumps({**RECORD, "more": 1})},
    ],
)
def test_metadata_of_another_form(metadata: dict[str, str] | None, tmp_path: Path) -> None:
    (tmp_path / "job.safetensors").write_bytes(save(ARRAY, metadata))
    assert "job.safetensors" in refused(tmp_path)
    assert not has_result(tmp_path, "job", "g")


def test_numbers_that_numpy_lacks(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save as save_torch

    raw = save_torch({"a": torch.zeros(3, dtype=torch.bfloat16)}, {"unplug": json.dumps(RECORD)})
    (tmp_path / "job.safetensors").write_bytes(raw)
    try:
        # where ml_dtypes gives numpy the type
        assert read_result(tmp_path, "job").tensors["a"].shape == (3,)
    except InputError as error:
        assert "not a whole result" in str(error)


@settings(max_examples=150)
@given(st.data())
def test_broken_bytes_are_a_typed_error_or_the_result(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    raw = bytearray(packed())
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    (folder / "job.safetensors").write_bytes(raw)
    try:
        back = read_result(folder, "job")
    except InputError:
        return
    assert isinstance(back.facts, dict)
