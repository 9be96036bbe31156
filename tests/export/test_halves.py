"""Half precision where the host widens it: what overflows is named, what does not passes, and rows
say what was computed.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.strangers import HALVES, Function, of_case
from torch import nn

from unplug.export import Reference, psnr_db
from unplug.export.arithmetic import arithmetic, kernels
from unplug.export.halves import Halves
from unplug.export.parity import ParityRow, _in_half_too


def in_half(net: nn.Module, images: torch.Tensor) -> tuple[float, str]:
    """PSNR of half precision, minus infinity where it is not finite, and what went wrong."""
    halves = Halves(net)
    with torch.no_grad():
        wanted, got = net(images), halves([images])
    finite = bool(got.isfinite().all())
    return psnr_db(wanted, got) if finite else -np.inf, halves.trouble or ""


@pytest.mark.parametrize("name", HALVES)
def test_the_first_operator_that_half_precision_cannot_hold(name: str) -> None:
    build, where = HALVES[name]
    torch.manual_seed(0)
    net, images = build(), torch.rand(4, 3, 32, 32)
    net.train()(images)
    ratio, trouble = in_half(net.eval(), images)
    if where is None:
        assert ratio > 55 and not trouble
    else:
        assert ratio < 30 and trouble.startswith(f"operator {where} "), (ratio, trouble)


def test_the_case_is_named_by_operator_and_layer() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(Function(lambda x: x / 0.00392), of_case("onnx-fp16-overflow")).eval()
    ratio, trouble = in_half(net, torch.rand(4, 3, 48, 48))
    words = r"operator pow in 1\.n reaches 2\..*e\+06, and float16 ends at 65,504"
    assert ratio < 10 and re.fullmatch(words, trouble)


def test_operators_that_write_into_their_argument_are_rounded_too() -> None:
    class InPlace(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made = x.clone()
            made[:, 0] += 0.0001
            return made.mul_(1.0001)

    got = Halves(InPlace())([torch.tensor([[1.0, 2049.0]])])
    half = np.float16(np.float32(np.float16(np.float32(1.0001))) * np.float32(1.0001))
    assert got.tolist() == [[float(half), float(np.float16(2048 * 1.0001))]]


ROW = ParityRow(
    file="age.fp16.onnx",
    artifact_sha256="0" * 64,
    target="onnx",
    precision="fp16",
    output="age",
    status="pass",
    reason=None,
    threshold_db=60.0,
    psnr_db=80.0,
    exact=False,
    max_abs_error=0.0,
    cosine=1.0,
    runtime="onnx",
    runtime_version="1",
)
POW = "operator pow in n reaches 2e+06, and float16 ends at 65,504"
IN_HALF = "in half precision, which this host does not compute in: "


@pytest.mark.parametrize(
    ("half", "trouble", "status", "why"),
    [
        (1.0001, None, "pass", None),
        (1.1, POW, "fail", f"{IN_HALF}{POW}; 20.0 dB is below 60 dB"),
        (np.nan, None, "fail", f"{IN_HALF}the output holds NaN or infinity"),
    ],
)
def test_a_row_that_passes_widened_fails_where_half_precision_does(
    half: float, trouble: str | None, status: str, why: str | None
) -> None:
    ones = np.ones((2, 3), np.float32)
    reference = Reference(
        checkpoint_sha256="0" * 64,
        model_type="age",
        outputs={"age": ones},
        halves={"age": ones * half},
        trouble=trouble,
    )
    row = _in_half_too(ROW, reference)
    assert (row.status, row.reason) == (status, why)


@pytest.mark.parametrize(
    ("flags", "ending"),
    [
        ("sse avx2", "avx2 without VNNI"),
        ("avx2 avx512bw avx512_vnni", "avx512_vnni"),
        ("sse", ""),
    ],
)
def test_kernels_are_named_by_what_the_processor_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, ending: str
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
    monkeypatch.setattr("unplug.export.arithmetic.CPUINFO", tmp_path / "cpuinfo")
    assert kernels().endswith(ending) and ("," in kernels()) == bool(ending)
    assert arithmetic("onnx", "int8-static") == f"int8 ({kernels()})"
    assert arithmetic("coreml", "fp16") is None and arithmetic("litert", "int8-weight") == "float32"
