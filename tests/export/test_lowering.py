"""What a converter lacks: rewritten to the same numbers, or named with its layer; what cannot be
checked is not passed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.strangers import CASES, Function
from torch import Tensor, nn
from torch.nn import functional as fn

from unplug.core import ConversionError
from unplug.export import export_checkpoint, measure_parity
from unplug.export.lowering import OTHERWISE, converted, in_words, lowered
from unplug.plugins import AgePredictor, save_checkpoint

from .conftest import given

LACKING = {str(target.overloadpacket).removeprefix("aten.") for target in OTHERWISE}
REWRITTEN: dict[str, Callable[[Tensor], Tensor]] = {
    "max pool without a stride": lambda x: fn.max_pool2d(x, 2),
    "max pool, ceil": lambda x: fn.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max pool, ceil, nothing left": lambda x: fn.max_pool2d(x, 2, 2, ceil_mode=True),
    "max pool, dilated": lambda x: fn.max_pool2d(x, (3, 2), 2, 1, (2, 1)),
    "max pool, one of two": lambda x: fn.max_pool2d(x, 2, return_indices=True)[0],
    "mean pool without a stride": lambda x: fn.avg_pool2d(x, (2, 3)),
    "mean pool, ceil": lambda x: fn.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "mean pool, ceil, padding not counted": lambda x: fn.avg_pool2d(x, 3, 2, 1, True, False),
    "mean pool, divided by another number": lambda x: fn.avg_pool2d(x, 2, 2, divisor_override=3),
    "alias": lambda x: x[:, :99] * 2,
    "padding in a circle": lambda x: fn.pad(x, (1, 2, 0, 3), "circular"),
    "padding that cuts off": lambda x: fn.pad(x, (-1, 2, 0, -3), value=0.5),
    "adaptive max pool": lambda x: fn.adaptive_max_pool2d(x, (3, 4)),
    "windows": lambda x: x.unfold(2, 3, 2),
    "product": lambda x: x.prod(1, keepdim=True),
    "remainder": lambda x: torch.fmod(x * 9, 2.5),
    "distance": lambda x: torch.cdist(x[0], x[0] * 2),
    "mean and variance": lambda x: sum(torch.var_mean(x, (2, 3), keepdim=True)),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_other_operators_give_the_same_numbers(name: str) -> None:
    """The oracle is PyTorch's own operator, on sides that windows do not fill."""
    function = REWRITTEN[name]
    x = torch.randn(1, 4, 11, 10, generator=torch.Generator().manual_seed(0))
    exported = torch.export.export(Function(function), (x,))
    program = lowered(exported, lambda kind: kind not in LACKING)
    torch.testing.assert_close(program.module()(x), function(x))
    for node in program.graph.nodes:
        assert node.target not in (*OTHERWISE, torch.ops.aten.alias.default)
        if node.target is torch.ops.aten.max_pool2d.default:
            assert len(node.args) >= 3 and node.args[2] and not any(node.args[5:])


def stops_at(name: str, error: Exception) -> Callable[[Any], list[str]]:
    """A converter that lacks an operator."""

    def convert(program: Any) -> list[str]:
        for node in program.graph.nodes:
            if name in str(node.target):
                raise error
        return [node.name for node in program.graph.nodes]

    return convert


def test_what_no_rewriting_helps_is_named_with_its_layer() -> None:
    net = nn.Sequential(nn.ReLU(), Function(torch.special.bessel_j0))
    program = torch.export.export(net, (torch.zeros(1, 3),))
    convert = stops_at("bessel", NotImplementedError("line one\nline two"))
    with pytest.raises(ConversionError) as caught:
        converted(convert, program, "export to coreml fp32")
    assert str(caught.value) == (
        "export to coreml fp32: its converter does not take operator special_bessel_j0 in 1 (line "
        "one). "
        "Write the layer in other operators, or export to another target."
    )
    words = pytest.raises(
        ConversionError, match=r"export to x: its converter stops: 'gone'\. Write"
    )
    with words, in_words("export to x"):
        raise KeyError("gone")


def test_an_operator_at_which_a_converter_stops_is_taken_apart() -> None:
    """It knows the name, and not these arguments."""
    program = torch.export.export(Function(lambda x: fn.celu(x, 0.5)), (torch.zeros(1, 3),))
    convert = stops_at("celu", ValueError("no alpha here"))
    assert "celu" not in converted(convert, program, "x")


# Files


STRANGE = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.body, self.fc = nn.Conv2d(3, 16, 3, 2, 1), Body(), nn.Linear(16, 13)

    def forward(self, x):
        return self.fc(self.body(self.c(x)).mean((2, 3)))


class Body(nn.Module):
    def forward(self, x):
        return FUNCTION
"""
POOLS = (CASES / "coreml-max-pool-stride" / "net.py").read_text()
SORTS = STRANGE.replace("FUNCTION", "x.sort(2)[0]")
BESSELS = STRANGE.replace("FUNCTION", "torch.special.bessel_j0(x)")


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """The checkpoint of a network whose code child processes import too."""

    def make(code: str, network: str) -> Path:
        module = f"net_{abs(hash(code))}_{network}"
        (tmp_path / f"{module}.py").write_text(code)
        monkeypatch.setenv("UNPLUG_FACTORIES", f"{module}:{network}")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.syspath_prepend(str(tmp_path))
        torch.manual_seed(0)
        factory = {"factory": f"{module}:{network}", "arguments": {}}
        how = {**factory, "mean": [0.5] * 3, "std": [0.5] * 3}
        model = AgePredictor(size="adopted", image_size=32, network=how)
        save_checkpoint(model.eval(), tmp_path / "net", record={}, card="A test model.")
        return tmp_path / "net"

    return make


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("code", "network", "status", "reason"),
    [
        (POOLS, "Net", "pass", None),
        (POOLS, "Alias", "pass", None),
        (SORTS, "Net", "not_run", "not checked: operator argsort cannot be evaluated here"),
    ],
    ids=["stride", "alias", "sort"],
)
def test_what_becomes_an_ml_program(
    saved: Callable[[str, str], Path],
    tmp_path: Path,
    code: str,
    network: str,
    status: str,
    reason: str | None,
) -> None:
    net = saved(code, network)
    made = export_checkpoint(net, targets=["coreml"], out=tmp_path / "out")
    report = measure_parity(made, net, given(made[0], 2))
    assert {row.status for row in report.rows} == {status}
    assert report.passed == (reason is None)
    assert all((row.reason or "").startswith(reason or "") for row in report.rows)


@pytest.mark.nightly
@pytest.mark.parametrize("target", ["coreml", "onnx"])
def test_what_cannot_be_converted_is_named(
    saved: Callable[[str, str], Path], tmp_path: Path, target: str
) -> None:
    words = r"does not take operator \w+[_.]bessel_j0 in network\.inner\.body \("
    with pytest.raises(ConversionError, match=words):
        export_checkpoint(saved(BESSELS, "Net"), targets=[target], out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("*"))
