"""A card's metadata, read by the hub's own reader."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from unplug.sdk.learning.training import front_matter

RECORD = {"data": {"spec": "utkface:/home/anna/faces"}, "base": {"name": "owner/base-1.5"}}


def read(record: dict[str, Any], **values: float) -> Any:
    text = front_matter("A: model", ("x",), record, {"test": values})
    return ModelCard(f"{text}# A model\n", ignore_metadata_errors=False).data


def test_base_data_and_what_was_measured() -> None:
    found = read(RECORD, mae=5.25, accuracy=0.5)
    assert (found.library_name, found.base_model, found.datasets) == (
        "unplug-sdk",
        "owner/base-1.5",
        ["utkface"],
    )
    told = [
        (one.dataset_type, one.dataset_split, one.metric_type, one.metric_value)
        for one in found.eval_results
    ]
    assert told == [("utkface", "test", "mae", 5.25), ("utkface", "test", "accuracy", 0.5)]
    assert found.model_name == "A: model" and "anna" not in str(found)


def test_a_folder_is_no_base_of_the_hub_and_own_pictures_no_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner/base-1.5").mkdir(parents=True)
    assert read(RECORD, mae=1.0).base_model is None
    for name in ("small", "../owner/base", "a/b/c", "a b/c"):
        assert read(RECORD | {"base": {"name": name}}, mae=1.0).base_model is None
    assert read({"data": {"spec": "csv:faces.csv"}}, mae=1.0).datasets is None


def test_what_is_no_number_was_not_measured() -> None:
    found = read(RECORD, mae=math.nan, accuracy=0.25)
    assert [one.metric_type for one in found.eval_results] == ["accuracy"]
