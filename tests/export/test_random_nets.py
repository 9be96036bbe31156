"""A law over networks that nobody drew: whatever is built of `blocks` computes the same numbers in
every target.

The networks come from another distribution's entry point, as a third party's would.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.exported import EVERYWHERE

from unplug.core import IOSpec, call_in_child
from unplug.export import export_checkpoint, measure_parity, random_inputs
from unplug.plugins.checkpoint import MODELS

PLACE = "tests.export.random_nets:RandomNet"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution: found by child processes, and put where this one, which reads entry points
    once, looks for names.
    """
    info = tmp_path / "random_nets-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: random-nets\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[unplug.models]\nrandom = {PLACE}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert "random" not in MODELS
    monkeypatch.setitem(MODELS._targets, "random", PLACE)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(6))
def test_all_targets_agree_with_torch(installed: None, tmp_path: Path, seed: int) -> None:
    checkpoint, layout = tmp_path / "net", ("NCHW", "NHWC")[seed % 2]
    values = {"path": str(checkpoint), "seed": seed}
    made = call_in_child("tests.export.random_nets:make", values, what="make").values
    iospec = IOSpec.from_dict(made["iospec"])
    artifacts = export_checkpoint(
        checkpoint,
        targets=EVERYWHERE,
        precisions=["fp32", "fp16", "int8-static"],
        out=tmp_path / "out",
        calibration=random_inputs(iospec, 16, seed=1),
        layout=layout,
        workers=2,
    )
    inputs = random_inputs(iospec.images_in(layout), 4, seed=2)
    rows = measure_parity(artifacts, checkpoint, inputs).rows
    assert len(rows) == len(EVERYWHERE) * 3 * 2 and {row.status for row in rows} == {"pass"}, rows
    for target in EVERYWHERE:  # no precision is another one under its name
        features = [row for row in rows if (row.target, row.output) == (target, "features")]
        fine, half, int8 = (row.psnr_db for row in features)
        assert (fine is None or fine > half) and half > int8, rows
