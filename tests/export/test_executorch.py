"""ExecuTorch programs: parity with the checkpoint, what they say of themselves, and what of them is
refused.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.exported import files_of, require_installed

from unplug.core import ArtifactError
from unplug.export import Session, coverage, load_artifact, measure_parity
from unplug.export.artifact import write_card
from unplug.export.pte import XNNPACK, PteTable, read_calls, xnnpack_nodes
from unplug.sdk.cli import main

from .conftest import Files, given, resigned

FP32, INT8 = "age.fp32.pte", "age.int8-static.pte"
LEFT = ("aten::sum",)
"""The mean of the age groups, weighted: XNNPACK has no sum over one axis that is kept."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Files:
    require_installed("executorch")
    return files_of(tmp_path_factory, ["executorch"])


@pytest.mark.nightly
def test_both_precisions_are_near_enough(programs: Files, checkpoint: Path) -> None:
    full, small = made = [programs[FP32], programs[INT8]]
    rows = measure_parity(made, checkpoint, given(full, 8, seed=2)).rows
    assert {(row.status, row.runtime) for row in rows} == {("pass", "executorch")}, rows
    assert len(rows) == 4 and all(row.runtime_version for row in rows)
    for fine, coarse in zip(rows[:2], rows[2:], strict=True):
        assert fine.psnr_db is None or (coarse.psnr_db or 1e9) + 10 < fine.psnr_db
    assert small.card.bytes < 0.36 * full.card.bytes and small.card.calibration is not None


@pytest.mark.nightly
@pytest.mark.parametrize("name", [FP32, INT8])
def test_a_program_says_what_xnnpack_takes_and_no_source_path(programs: Files, name: str) -> None:
    calls, content = read_calls(programs[name].path), programs[name].path.read_bytes()
    assert calls.delegates == (XNNPACK,) and calls.operators == LEFT
    assert calls.delegated is not None and calls.delegated > 40
    covered = coverage(programs[name], "xnnpack")
    assert not covered.whole and covered.placement is not None
    assert (covered.placement.partitions, covered.placement.nodes_total) == (1, calls.delegated + 1)
    assert str(covered) == f"{name}: xnnpack does not take 1 aten::sum"
    assert b"expected_age" in content and b".py" not in content
    assert str(Path(__file__).parents[2]).encode() not in content


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (lambda raw: raw[:3], "does not begin as an ExecuTorch program does"),
        (lambda raw: raw[:64], "its flatbuffer is broken"),
        (lambda raw: b"\xff\xff\xff\x7f" + raw[4:], "its flatbuffer is broken"),
        (lambda raw: raw[:64] + b"\xff" * (len(raw) - 64), "its flatbuffer is broken"),
        (lambda raw: raw[: len(raw) // 2], "ExecuTorch cannot load it"),
        (lambda raw: raw.replace(b"Xnnpack", b"Vulkan_"), "it was lowered to Vulkan_Backend"),
        (lambda raw: raw.replace(b"expected_age", b"expected_agf"), "tensors are .*expected_agf"),
    ],
    ids=["short", "head", "far", "ones", "half", "backend", "name"],
)
def test_broken_programs_are_refused(
    programs: Files, tmp_path: Path, harm: Callable[[bytes], bytes], why: str
) -> None:
    broken = resigned(programs[FP32], tmp_path, harm(programs[FP32].path.read_bytes()))
    with pytest.raises(ArtifactError, match=rf"{FP32}.*{why}"):
        Session(broken).run(given(broken), timeout=120)


@pytest.mark.nightly
def test_another_models_program_is_refused(programs: Files, tmp_path: Path) -> None:
    copy = resigned(programs[FP32], tmp_path, programs[FP32].path.read_bytes())
    (image,) = copy.card.iospec.inputs
    iospec = replace(copy.card.iospec, inputs=(replace(image, shape=(1, 3, 16, 16)),))
    write_card(copy.path, replace(copy.card, iospec=iospec))
    wrong = load_artifact(copy.path)
    with pytest.raises(ArtifactError, match=r"tensors are .*\(1, 3, 32, 32\).*\(1, 3, 16, 16\)"):
        Session(wrong).run(given(wrong))


@pytest.mark.nightly
def test_bench_takes_a_program(programs: Files, checkpoint: Path, tmp_path: Path) -> None:
    words = f"--on host --checkpoint {checkpoint} --repeats 2 --iterations 5 --warm-ups 1 --json"
    out = ["--out", str(tmp_path / "bench.json")]
    done = CliRunner().invoke(main, ["bench", str(programs[FP32].path), *words.split(), *out])
    (row,) = json.loads((tmp_path / "bench.json").read_text())["rows"]
    wanted = ("executorch", "executorch", "xnnpack", "host")
    told = ("target", "runtime", "delegate_got", "where")
    assert tuple(row[name] for name in told) == wanted, done.output
    assert row["nodes_delegated"] + 1 == row["nodes_total"]


def test_a_flatbuffer_by_hand() -> None:
    """One table with a number, a string that is missing, and a list of two tables."""
    vtable = struct.pack("<4H", 8, 12, 4, 8)  # its own size, the table's, then where two fields are
    # the vtable lies 8 bytes before; 7; the vector begins 4 bytes behind its field
    table, vector = struct.pack("<iiI", 8, 7, 4), struct.pack("<3I", 2, 8, 4)
    content = struct.pack("<I", 12) + vtable + table + vector
    root = PteTable.root(content)
    assert (root.number(0, "<i"), root.count(1), root.text(2)) == (7, 2, "")
    assert (root.count(3), root.bytes(5)) == (0, b"")
    with pytest.raises(IndexError, match="no item 2 of 2"):
        root.item(1, 2)
    with pytest.raises(ValueError, match="field 4 of a table is missing"):
        root.table(4)
    with pytest.raises(ValueError, match="do not begin as XNNPACK's do"):
        xnnpack_nodes(content)
