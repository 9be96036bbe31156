"""Running artifacts: names, batches, bad inputs, broken files."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import ArtifactError, Child, InputError
from unplug.export import Session, load_artifact
from unplug.export.artifact import write_card

from .conftest import Files, given, resigned

RUNNABLE = pytest.mark.parametrize("name", ["age.fp32.tflite", "age.fp32.onnx"])


@RUNNABLE
def test_calls_share_a_process_and_samples_keep_their_order(
    by_name: Files, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, seen = given(by_name[name], 3), list[tuple[int, int, str]]()
    with Session(by_name[name]) as session:
        whole = session.run(inputs)
        shapes = {key: value.shape for key, value in whole.items()}
        assert shapes == {"age_logits": (3, 13), "expected_age": (3, 1)}
        monkeypatch.setattr("unplug.export.session.CHUNK_BYTES", 2 * inputs["image"][:1].nbytes)
        monkeypatch.setattr("subprocess.Popen", None)
        turned = {"image": inputs["image"][::-1]}
        again = session.run(turned, progress=lambda *step: seen.append(step))
    assert seen == [(2, 3, name), (3, 3, name)]
    assert all(np.array_equal(whole[key], again[key][::-1]) for key in whole)


def test_sessions_of_one_runtime_share_a_child(by_name: Files) -> None:
    files = [by_name[name] for name in ("age.fp32.onnx", "age.fp16.onnx")]
    with Child() as child:
        one, other = (Session(file, child=child) for file in files)
        first, second, third = (each.run(given(files[0])) for each in (one, other, one))
    for key in first:
        assert np.array_equal(first[key], third[key])
        assert not np.array_equal(first[key], second[key])


def test_bad_inputs_are_named(by_name: Files) -> None:
    with pytest.raises(InputError, match="input 'image': its values reach"):
        Session(by_name["age.fp32.onnx"]).run({"image": np.full((1, 3, 32, 32), 255, np.float32)})


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"runtime": "onx"}, "runtime 'onx': no such name"),
        ({"delegate": "gpu"}, r"delegate 'gpu': onnx has none of this name\. Known: cpu, cuda"),
        ({"threads": 0}, "0 threads"),
    ],
)
def test_bad_sessions(by_name: Files, how: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Session(by_name["age.fp32.onnx"], **how)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML runs on macOS")
def test_core_ml_says_that_it_cannot_run_here(by_name: Files) -> None:
    with pytest.raises(InputError, match="Core ML runs on macOS only"):
        Session(by_name["age.fp32.mlpackage"], runtime="coreml")
    assert Session(by_name["age.fp32.mlpackage"]).runtime.name == "mil"


@pytest.mark.long
@RUNNABLE
def test_damaged_files_with_a_forged_card(by_name: Files, name: str, tmp_path: Path) -> None:
    content = by_name[name].path.read_bytes()
    half, renamed = content[: len(content) // 2], content.replace(b"age_logits", b"\xff" * 10)
    for damaged in (content[:16], half, renamed):
        forged = resigned(by_name[name], tmp_path, damaged)
        with pytest.raises(ArtifactError, match="cannot load it"):
            Session(forged).run(given(forged))


@RUNNABLE
def test_a_card_that_lies_about_the_tensors(by_name: Files, name: str, tmp_path: Path) -> None:
    copy = resigned(by_name[name], tmp_path, by_name[name].path.read_bytes())
    logits, age = copy.card.iospec.outputs
    lies = replace(copy.card.iospec, outputs=(replace(logits, name="logits"), age))
    write_card(copy.path, replace(copy.card, iospec=lies, config={}))
    with pytest.raises(ArtifactError, match=r"its tensors are .* where its card says"):
        Session(load_artifact(copy.path)).run(given(copy))
