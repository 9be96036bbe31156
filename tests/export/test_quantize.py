"""Fewer bits: bias correction by hand and by law, files that say the same in fewer bytes, and every
compressed artifact.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given as drawn
from hypothesis import strategies as st
from tests.exported import CALIBRATION_SAMPLES, EVERYWHERE, calibration_of
from tests.strangers import KERNELS
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from unplug.core import InputError
from unplug.export import (
    PRECISIONS,
    TARGETS,
    digest_inputs,
    export_checkpoint,
    measure_parity,
    psnr_db,
)
from unplug.export.artifact import Calibrated
from unplug.export.bias_correction import corrected, folded, plain, rounded
from unplug.export.targets.flatbuffer import read_model
from unplug.plugins import ConvNormAct, InvertedBottleneck, load_checkpoint

from .conftest import Files, given, in_child

# The grid and the correction


def test_a_kernel_on_its_grid_by_hand() -> None:
    """Two channels with scales of 1 and 0.5, one of zeros, in the shape of a depthwise kernel."""
    weight = torch.tensor([[127.0, 0.6, -1.4], [63.5, 0.3, 0.2], [0.0, 0.0, 0.0]]).view(3, 1, 1, 3)
    wanted = torch.tensor([[127.0, 1.0, -1.0], [63.5, 0.5, 0.0], [0.0, 0.0, 0.0]]).view(3, 1, 1, 3)
    torch.testing.assert_close(rounded(weight), wanted)


@drawn(st.integers(1, 8), st.integers(1, 8), st.integers(0, 10**6))
def test_rounding_is_within_half_a_step_and_done_once(channels: int, width: int, seed: int) -> None:
    weight = torch.randn(channels, width, generator=torch.Generator().manual_seed(seed))
    once = rounded(weight)
    step = weight.abs().amax(dim=1, keepdim=True) / 127
    assert bool(((once - weight).abs() <= 0.5001 * step).all())
    torch.testing.assert_close(rounded(once), once)


def settled(net: nn.Module, inputs: Tensor) -> nn.Module:
    """The net with running statistics of its own."""
    net.train()
    with torch.no_grad():
        for _ in range(3):
            net(inputs)
    return net.eval()


@pytest.fixture(params=["norms", "plain"])
def net_and_images(request: pytest.FixtureRequest) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    images = torch.randn(8, 3, 12, 10)
    if request.param == "plain":
        layers = [nn.Conv2d(3, 4, 3, bias=False), nn.ReLU(), nn.Conv2d(4, 5, 1)]
    else:
        layers = [
            ConvNormAct(3, 8, stride=2),
            InvertedBottleneck(8, 8),
            InvertedBottleneck(8, 12),
        ]
    return settled(nn.Sequential(*layers), images), images


def test_folding_changes_nothing_else(net_and_images: tuple[nn.Module, Tensor]) -> None:
    net, images = net_and_images
    before = copy.deepcopy(net.state_dict())
    twin = folded(net)
    with torch.no_grad():
        torch.testing.assert_close(twin(images), net(images), rtol=1e-4, atol=1e-5)
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in twin.modules())
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def means(net: nn.Module, images: Tensor) -> list[Tensor]:
    """Of every channel behind every layer with a kernel."""
    seen: list[Tensor] = []

    def note(_layer: Any, _given: Any, output: Tensor) -> None:
        seen.append(output.transpose(0, 1).flatten(1).mean(dim=1))

    twin = copy.deepcopy(net)
    for layer in twin.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(note)
    with torch.no_grad():
        twin(images)
    return seen


def test_corrected_biases_put_every_mean_back(net_and_images: tuple[nn.Module, Tensor]) -> None:
    """The law: behind each layer of the rounded net, channels have the means of the exact one."""
    net, images = net_and_images
    wanted, better = means(net, images), corrected(net, [images]).model
    kernels = [(name, value) for name, value in net.named_parameters() if value.ndim > 1]
    assert all(torch.equal(value, better.get_parameter(name)) for name, value in kernels)
    errors = []
    for twin in (copy.deepcopy(net), better):
        for layer in twin.modules():
            if isinstance(layer, nn.Conv2d):
                layer.weight.data = rounded(layer.weight)
        pairs = zip(means(twin, images), wanted, strict=True)
        errors.append(max(float((one - two).abs().max()) for one, two in pairs))
    off, left = errors
    assert left < 1e-5 < 10 * left + 1e-4 < 0.2 * off + 1e-4 and off > 1e-4, errors


class _Rounding(TorchFunctionMode):
    """Every kernel that a function convolves with is rounded, whatever it comes from."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.conv2d:
            args = (args[0], rounded(args[1]), *args[2:])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", KERNELS)
def test_correction_of_any_network_is_never_worse(name: str) -> None:
    """The oracle rounds by functions, not by operators."""
    build, count, left = KERNELS[name]
    torch.manual_seed(0)
    net, images = build(), torch.rand(8, 3, 32, 32)
    settled(net, images)
    with torch.no_grad():
        net.fc.weight.mul_(20.0)
    made = corrected(plain(net), [images])
    assert (len(made.layers), made.left) == (count, left)
    with torch.no_grad():
        wanted = net(images)
        with _Rounding():
            before, after = psnr_db(wanted, net(images)), psnr_db(wanted, made.model(images))
    assert after >= before and (after > before + 1) == (count > 0), (before, after)


def test_a_correction_that_makes_it_worse_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Means that were taken wrongly: the outputs on the samples decide."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.ReLU(), nn.Conv2d(4, 5, 1)).eval()
    monkeypatch.setattr(
        "unplug.export.bias_correction._means",
        lambda output: output.transpose(0, 1).flatten(1).amax(dim=1) * 3,
    )
    made = corrected(net, [torch.randn(8, 3, 12, 10)])
    assert made.model is net and made.layers == ()
    assert made.left == ("2 convolutions: the outputs on the samples came no nearer for it",)


# Files


@pytest.mark.long
def test_every_precision_of_every_target_is_near_enough(by_name: Files, checkpoint: Path) -> None:
    files = [item for item in by_name.values() if item.card.precision != "fp16"]
    rows = measure_parity(files, checkpoint, given(files[0], 8, seed=2)).rows
    assert all(row.status == "pass" for row in rows), rows
    logits = {(row.target, row.precision): row for row in rows if row.output == "age_logits"}
    for target in EVERYWHERE:
        for name in set(TARGETS.get(target).precisions) - {"fp16"}:
            row, full = logits[target, name], logits[target, "fp32"]
            # and yet it is another file
            assert not name.startswith("int8") or row.psnr_db < full.psnr_db - 10, row


@pytest.mark.parametrize(
    "target", ["litert", "onnx", pytest.param("coreml", marks=pytest.mark.long)]
)
def test_eight_bits_are_a_quarter_and_cards_say_what_calibrated(
    by_name: Files, checkpoint: Path, target: str
) -> None:
    """The budget of 0.3 holds for the sizes that ship; a nano net has more names and scales in its
    bytes.
    """
    kinds = map(type, load_checkpoint(checkpoint).model.modules())
    wanted = Calibrated(
        samples=CALIBRATION_SAMPLES,
        sha256=digest_inputs(calibration_of(checkpoint)),
        corrected=sum(issubclass(kind, nn.Conv2d) for kind in kinds),
    )
    suffix, precisions = TARGETS.get(target).suffix, TARGETS.get(target).precisions
    cards = {name: by_name[f"age.{name}{suffix}"].card for name in precisions}
    for name, card in cards.items():
        assert name in ("fp32", "fp16") or card.bytes < 0.36 * cards["fp32"].bytes, name
        looks = PRECISIONS.get(name).calibration != "none"
        assert card.calibration == (wanted if looks else None)


@pytest.mark.parametrize("precision", ["fp32", "int8-static"])
def test_names_are_short_and_each_is_one_tensors(by_name: Files, precision: str) -> None:
    graph = read_model(by_name[f"age.{precision}.tflite"].path.read_bytes()).subgraphs[0]
    names = [bytes(tensor.name).decode() for tensor in graph.tensors]
    assert "blocks.3.depthwise.2" in names and len(set(names)) == len(names)
    assert max(map(len, names)) < 60


@pytest.mark.nightly
@pytest.mark.parametrize(("precision", "most"), [("fp32", 0.99), ("int8-static", 0.9)])
def test_fewer_bytes_and_the_same_numbers(
    by_name: Files, checkpoint: Path, precision: str, most: float
) -> None:
    images = given(by_name["age.fp32.tflite"], 3, seed=3)
    reply = in_child("compacted", images, checkpoint=str(checkpoint), precision=precision)
    assert np.array_equal(reply.arrays["before"], reply.arrays["after"]) and reply.values["same"]
    before, after = reply.values["bytes"]
    assert after < most * before, (before, after)


def test_no_two_products_of_an_onnx_kernel_saturate(by_name: Files) -> None:
    """x86 without VNNI adds two products of an unsigned activation and a signed code in 16 bits."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(by_name["age.int8-static.onnx"].path).graph
    tensors = [item for item in graph.initializer if item.data_type == onnx.TensorProto.INT8]
    kernels = [codes for codes in map(numpy_helper.to_array, tensors) if codes.ndim == 4]
    assert kernels and max(abs(codes.astype(int)).max() for codes in kernels) * 2 * 255 < 2**15


@pytest.mark.long
def test_samples_of_another_shape_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((4, 3, 16, 16), np.float32)
    with pytest.raises(InputError, match=r"its shape is \(4, 3, 16, 16\)"):
        export_checkpoint(
            checkpoint,
            targets=["onnx"],
            precisions=["int8-static"],
            out=tmp_path,
            calibration={"image": images},
        )
    assert not any(tmp_path.iterdir())
