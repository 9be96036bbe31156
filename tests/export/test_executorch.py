"""ExecuTorch programs: parity with the checkpoint, what they say of themselves, and what of them is
refused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.exported import files_of, require_installed

from unplug.core import ArtifactError, InputError, MissingExtraError, sha256_tree
from unplug.export import (
    Artifact,
    Session,
    coverage,
    export_checkpoint,
    load_artifact,
    measure_parity,
    plan_pairs,
    random_inputs,
)
from unplug.export.artifact import write_card
from unplug.export.pte import XNNPACK, PteTable, read_calls, xnnpack_nodes
from unplug.sdk.cli import main

FP32, INT8 = "age.fp32.pte", "age.int8-static.pte"
LEFT = ("aten::sum",)
"""The mean of the age groups, weighted: XNNPACK has no sum over one axis that is kept."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Artifact]:
    require_installed("executorch")
    return files_of(tmp_path_factory, ["executorch"])


def test_fp16_and_weights_alone_are_refused_before_any_work() -> None:
    for precision in ("fp16", "int8-weight"):
        why = (
            rf"executorch {precision}: this target cannot hold this precision\. Use one of: fp32, "
            r"int8-static"
        )
        with pytest.raises(InputError, match=why):
            plan_pairs(["executorch"], [precision])


def test_without_the_package_the_extra_is_named(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.core.extras.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r'install .*\[executorch\]"'):
        export_checkpoint(checkpoint, targets=["executorch"], out=tmp_path)


@pytest.mark.nightly
def test_both_precisions_are_near_enough(
    programs: Mapping[str, Artifact], checkpoint: Path
) -> None:
    made = [programs[FP32], programs[INT8]]
    report = measure_parity(made, checkpoint, random_inputs(made[0].card.iospec, 8, seed=2))
    assert len(report.rows) == 4 and {row.status for row in report.rows} == {"pass"}, report.rows
    assert {(row.runtime, row.runtime_version is None) for row in report.rows} == {
        ("executorch", False)
    }
    fine, coarse = (
        [row.psnr_db for row in report.rows if row.file == name] for name in (FP32, INT8)
    )
    assert all(
        one is None or (two is not None and one > two + 10)
        for one, two in zip(fine, coarse, strict=True)
    )
    assert made[1].card.bytes < 0.36 * made[0].card.bytes and made[1].card.calibration is not None


@pytest.mark.nightly
def test_a_program_says_what_xnnpack_takes(programs: Mapping[str, Artifact]) -> None:
    for name in (FP32, INT8):
        calls = read_calls(programs[name].path)
        assert calls.delegates == (XNNPACK,) and calls.operators == LEFT
        assert calls.delegated is not None and calls.delegated > 40
        found = coverage(programs[name], "xnnpack")
        assert not found.whole and found.placement is not None and found.placement.partitions == 1
        assert found.placement.nodes_total == calls.delegated + 1
        assert str(found) == f"{name}: xnnpack does not take 1 aten::sum"


@pytest.mark.nightly
def test_a_program_holds_no_source_paths(programs: Mapping[str, Artifact]) -> None:
    content = programs[FP32].path.read_bytes()
    assert (
        b"expected_age" in content
        and str(Path(__file__).parents[2]).encode() not in content
        and b".py" not in content
    )


def forged(artifact: Artifact, folder: Path, content: bytes) -> Artifact:
    """A file with a card that vouches for it."""
    path = folder / artifact.path.name
    path.write_bytes(content)
    sha256, size = sha256_tree(path)
    write_card(path, replace(artifact.card, sha256=sha256, bytes=size))
    return load_artifact(path)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda raw: raw[:3], "does not begin as an ExecuTorch program does"),
        (lambda raw: raw[:64], "its flatbuffer is broken"),
        (lambda raw: b"\xff\xff\xff\x7f" + raw[4:], "its flatbuffer is broken"),
        (lambda raw: raw[:64] + b"\xff" * (len(raw) - 64), "its flatbuffer is broken"),
        (lambda raw: raw[: len(raw) // 2], "ExecuTorch cannot load it"),
        (
            lambda raw: raw.replace(b"XnnpackBackend", b"VulkanBackendX"),
            "it was lowered to VulkanBackendX",
        ),
        (
            lambda raw: raw.replace(b"expected_age", b"expected_agf"),
            "its tensors are .*expected_agf",
        ),
    ],
    ids=["short", "head", "far", "ones", "half", "backend", "name"],
)
def test_broken_programs_are_refused(
    programs: Mapping[str, Artifact], tmp_path: Path, harm: Callable[[bytes], bytes], why: str
) -> None:
    broken = forged(programs[FP32], tmp_path, harm(programs[FP32].path.read_bytes()))
    with pytest.raises(ArtifactError, match=why) as caught:
        Session(broken).run(random_inputs(broken.card.iospec, 1, seed=0), timeout=120)
    assert broken.path.name in str(caught.value)


@pytest.mark.nightly
def test_another_models_program_is_refused(
    programs: Mapping[str, Artifact], tmp_path: Path
) -> None:
    item = forged(programs[FP32], tmp_path, programs[FP32].path.read_bytes())
    (image,) = item.card.iospec.inputs
    card = replace(
        item.card, iospec=replace(item.card.iospec, inputs=(replace(image, shape=(1, 3, 16, 16)),))
    )
    write_card(item.path, card)
    wrong = load_artifact(item.path)
    with pytest.raises(
        ArtifactError, match=r"its tensors are .*\(1, 3, 32, 32\).*\(1, 3, 16, 16\)"
    ):
        Session(wrong).run(random_inputs(wrong.card.iospec, 1, seed=0))


@pytest.mark.nightly
def test_bench_takes_a_program(
    programs: Mapping[str, Artifact], checkpoint: Path, tmp_path: Path
) -> None:
    path, out = str(programs[FP32].path), tmp_path / "bench.json"
    words = [
        "bench",
        path,
        "--on",
        "host",
        "--checkpoint",
        str(checkpoint),
        "--repeats",
        "2",
        "--iterations",
        "5",
    ]
    done = CliRunner().invoke(main, [*words, "--warmup", "1", "--out", str(out), "--json"])
    rows: list[dict[str, Any]] = json.loads(out.read_text())["rows"]
    assert rows and {(row["target"], row["runtime"], row["delegate_got"]) for row in rows} == {
        ("executorch", "executorch", "xnnpack")
    }, done.output
    assert all(
        row["where"] == "host" and row["nodes_delegated"] + 1 == row["nodes_total"] for row in rows
    )


def test_a_flatbuffer_by_hand() -> None:
    """One table with a number, a string that is missing, and a list of two tables."""
    vtable = struct.pack("<4H", 8, 12, 4, 8)  # its own size, the table's, then where two fields are
    # the vtable lies 8 bytes before; 7; the vector begins 4 bytes behind its field
    table = struct.pack("<iiI", 8, 7, 4)
    vector = struct.pack("<3I", 2, 8, 4)
    content = struct.pack("<I", 12) + vtable + table + vector
    found = PteTable.root(content)
    assert (
        found.number(0, "<i") == 7
        and found.count(1) == 2
        and (found.text(2), found.count(3), found.bytes(5)) == ("", 0, b"")
    )
    with pytest.raises(IndexError, match="no item 2 of 2"):
        found.item(1, 2)
    with pytest.raises(ValueError, match="field 4 of a table is missing"):
        found.table(4)
    with pytest.raises(ValueError, match="do not begin as XNNPACK's do"):
        xnnpack_nodes(content)
