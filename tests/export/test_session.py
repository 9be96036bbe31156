"""Running artifacts: names, batches, bad inputs, broken files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unplug.core import ArtifactError, Child, InputError, sha256_tree
from unplug.export import Artifact, Session, load_artifact, random_inputs
from unplug.export.artifact import write_card

RUNNABLE = ["age.fp32.tflite", "age.fp32.onnx"]


def resigned(artifact: Artifact, folder: Path, content: bytes) -> Artifact:
    """A copy with other bytes and a card that says they are right, as an attacker would write it."""
    path = folder / artifact.path.name
    path.write_bytes(content)
    digest, size = sha256_tree(path)
    write_card(path, replace(artifact.card, sha256=digest, bytes=size))
    return load_artifact(path)


@pytest.mark.parametrize("name", RUNNABLE)
def test_calls_share_a_process_and_samples_keep_their_order(
    by_name: Mapping[str, Artifact], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session(by_name[name]) as session:
        inputs = random_inputs(session.artifact.card.iospec, 3, seed=0)
        whole = session.run(inputs)
        assert {key: value.shape for key, value in whole.items()} == {
            "age_logits": (3, 13),
            "expected_age": (3, 1),
        }
        seen: list[tuple[int, int, str]] = []
        monkeypatch.setattr("unplug.export.session.CHUNK_BYTES", 2 * inputs["image"][:1].nbytes)
        monkeypatch.setattr("subprocess.Popen", None)
        again = session.run(
            {"image": inputs["image"][::-1]}, progress=lambda *step: seen.append(step)
        )
    assert seen == [(2, 3, name), (3, 3, name)]
    for key in whole:
        np.testing.assert_array_equal(whole[key], again[key][::-1])


def test_sessions_of_one_runtime_share_a_child(by_name: Mapping[str, Artifact]) -> None:
    with Child() as child:
        one, other = (
            Session(by_name[name], child=child) for name in ("age.fp32.onnx", "age.fp16.onnx")
        )
        inputs = random_inputs(one.artifact.card.iospec, 1, seed=0)
        first, second, third = one.run(inputs), other.run(inputs), one.run(inputs)
    for key in first:
        np.testing.assert_array_equal(first[key], third[key])
        assert not np.array_equal(first[key], second[key])


def test_bad_inputs_are_named(by_name: Mapping[str, Artifact]) -> None:
    session = Session(by_name["age.fp32.onnx"])
    good = random_inputs(session.artifact.card.iospec, 1, seed=0)["image"]
    for bad, message in (
        (good[:, :, :16], "input 'image': its shape is"),
        (np.full_like(good, np.nan), "input 'image': it holds NaN"),
        (good * 255, "input 'image': its values reach"),
        (good.astype(np.float64), "input 'image': it is float64"),
    ):
        with pytest.raises(InputError, match=message):
            session.run({"image": bad})


def test_bad_sessions(by_name: Mapping[str, Artifact]) -> None:
    artifact = by_name["age.fp32.onnx"]
    with pytest.raises(InputError, match="runtime 'onx': no such name"):
        Session(artifact, runtime="onx")
    with pytest.raises(
        InputError, match=r"delegate 'gpu': onnx has none of this name\. Known: cpu, cuda"
    ):
        Session(artifact, delegate="gpu")
    with pytest.raises(InputError, match="0 threads"):
        Session(artifact, threads=0)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML runs on macOS")
def test_core_ml_says_that_it_cannot_run_here(by_name: Mapping[str, Artifact]) -> None:
    with pytest.raises(InputError, match="Core ML runs on macOS only"):
        Session(by_name["age.fp32.mlpackage"], runtime="coreml")
    assert Session(by_name["age.fp32.mlpackage"]).runtime.name == "mil"


@pytest.mark.long
@pytest.mark.parametrize("name", ["age.fp32.tflite", "age.fp32.onnx"])
def test_damaged_files_with_a_forged_card(
    by_name: Mapping[str, Artifact], name: str, tmp_path: Path
) -> None:
    content = by_name[name].path.read_bytes()
    for damaged in (
        content[:16],
        content[: len(content) // 2],
        content.replace(b"age_logits", b"\xff" * 10),
    ):
        forged = resigned(by_name[name], tmp_path, damaged)
        with pytest.raises(ArtifactError, match="cannot load it"):
            Session(forged).run(random_inputs(forged.card.iospec, 1, seed=0))


@pytest.mark.parametrize("name", ["age.fp32.tflite", "age.fp32.onnx"])
def test_a_card_that_lies_about_the_tensors(
    by_name: Mapping[str, Artifact], name: str, tmp_path: Path
) -> None:
    artifact = resigned(by_name[name], tmp_path, by_name[name].path.read_bytes())
    spec = artifact.card.iospec
    lies = replace(spec, outputs=(replace(spec.outputs[0], name="logits"), spec.outputs[1]))
    write_card(artifact.path, replace(artifact.card, iospec=lies, config={}))
    with pytest.raises(ArtifactError, match=r"its tensors are .* where its card says"):
        Session(load_artifact(artifact.path)).run(random_inputs(spec, 1, seed=0))
