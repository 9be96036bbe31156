"""What tests ask of converters and their packages, each in a child process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as fn

from unplug.core import IOSpec, Job, Reply, TensorSpec
from unplug.export import TARGETS, TargetSource


def edit(job: Job) -> Reply:
    """Changes one padding, weight, operator or shape of a package's program."""
    from coremltools.proto import Model_pb2

    from unplug.export.mil.package import Package

    package, what = Path(job.values["path"]), job.values["what"]
    file = next(package.glob("Data/*/*.mlmodel"))
    spec = Model_pb2.Model()
    spec.ParseFromString(file.read_bytes())
    main = spec.mlProgram.functions["main"]
    block = main.block_specializations[main.opset]
    by_name = {operation.outputs[0].name: operation for operation in block.operations}

    def constant(operation: Any, name: str) -> Any:
        return by_name[operation.inputs[name].arguments[0].name].attributes["val"]

    convs = [operation for operation in block.operations if operation.type == "conv"]
    if what == "padding":
        kinds = [
            constant(conv, "pad_type").immediateValue.tensor.strings.values[0] for conv in convs
        ]
        second = [conv for conv, kind in zip(convs, kinds, strict=True) if kind == "custom"][1]
        # the same shape, shifted by one pixel
        constant(second, "pad").immediateValue.tensor.ints.values[:] = [2, 0, 2, 0]
    elif what == "weight":
        blob = constant(convs[0], "weight").blobFileValue
        raw = bytes(Package(package).blob(blob.fileName, blob.offset))
        weights = np.frombuffer(raw, np.float32).copy()
        weights[np.abs(weights).argmax()] *= -1
        stored = next(package.glob("Data/*/weights/weight.bin"))
        stored.write_bytes(stored.read_bytes().replace(raw, weights.tobytes()))
    elif what == "operator":
        convs[3].type = "fancy_conv"
    elif what == "dynamic":
        main.inputs[0].type.tensorType.dimensions[0].unknown.variadic = False
    file.write_bytes(spec.SerializeToString())
    return Reply(values={})


class Made(nn.Module):
    """A function with two weights of its own."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.randn(6, 4, 3, 3))
        self.bias = nn.Parameter(torch.randn(6))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.function(self, x)
        return made


def _interleaved(m: Any, x: Tensor) -> Tensor:
    flat = x.flatten(1)
    pairs = torch.cat([flat[:, 1::2].unsqueeze(-1), flat[:, ::2].unsqueeze(-1)], -1)
    return pairs.transpose(1, 2).repeat(1, 1, 2).split([1, 1], 1)[1].squeeze(1)


def _activations(m: Any, x: Tensor) -> Tensor:
    made = fn.hardswish(x) + fn.silu(x) + fn.gelu(x) + fn.relu6(x) + fn.leaky_relu(x, 0.2)
    made = made + fn.elu(x) + fn.hardsigmoid(x) + x.tanh() + x.sigmoid() + fn.softplus(x)
    return made + fn.softmax(x, 1)


def _pools(m: Any, x: Tensor) -> Tensor:
    means = fn.avg_pool2d(x, 3, 2, 1) + fn.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    return means + fn.max_pool2d(x, 3, 2, 1) + fn.adaptive_avg_pool2d(x, 1)


def _reductions(m: Any, x: Tensor) -> Tensor:
    sides = (2, 3)
    made = x.mean(sides) + x.amax(sides) + x.amin(sides) + x.sum(sides) + x.logsumexp(sides)
    return made + x.square().mean(sides).sqrt()


def _arithmetic(m: Any, x: Tensor) -> Tensor:
    made = (x.abs() + 1).log() + (x.abs() + 0.1).rsqrt() + x.exp() + x.sin() * x.cos() + x.erf()
    made = made + torch.maximum(x, x.floor()) - torch.minimum(x, x.ceil())
    return made + torch.where(x > 0, x, x.pow(2.0))


CONVERTED = {
    "conv": lambda m, x: fn.conv2d(x, m.weight, m.bias, stride=2, padding=(1, 0), dilation=(1, 2)),
    "depthwise": lambda m, x: fn.conv2d(x, m.weight[:4, :1], m.bias[:4], padding=1, groups=4),
    "padded": lambda m, x: fn.conv2d(fn.pad(x, (0, 1, 0, 1)), m.weight, m.bias, stride=2),
    "transposed": lambda m, x: fn.conv_transpose2d(
        x, m.weight.transpose(0, 1), m.bias, stride=2, padding=1, output_padding=1
    ),
    "norms": lambda m, x: fn.layer_norm(fn.group_norm(x, 2), [7], eps=1e-3),
    "batch norm": lambda m, x: fn.batch_norm(
        x, m.bias[:4].detach(), m.bias[:4].exp().detach(), eps=1e-3
    ),
    "activations": _activations,
    "pools": _pools,
    "shapes": _interleaved,
    "resize": lambda m, x: (
        fn.interpolate(x, scale_factor=2.0, mode="nearest")
        + fn.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
    ),
    "attention": lambda m, x: fn.scaled_dot_product_attention(
        x.flatten(2), x.flatten(2) * 2, x.flatten(2)
    ),
    "reductions": _reductions,
    "arithmetic": _arithmetic,
}
IN_HALF = ("conv", "norms", "attention")


def convert(job: Job) -> Reply:
    """What torch gives of every case, and what coremltools' program of it gives here."""
    import coremltools as ct

    from unplug.export.mil.evaluate import Evaluator
    from unplug.export.mil.program import read_program

    torch.manual_seed(0)
    x = torch.randn(1, 4, 7, 7)
    arrays = {}
    for name, function in CONVERTED.items():
        model = Made(function).eval()
        with torch.no_grad():
            arrays[f"{name} wanted"] = model(x).numpy()
        program = torch.export.export(model, (x,)).run_decompositions({})
        for precision in ("FLOAT32", "FLOAT16") if name in IN_HALF else ("FLOAT32",):
            made = ct.convert(
                program,
                inputs=[ct.TensorType(name="x", shape=tuple(x.shape), dtype=np.float32)],
                outputs=[ct.TensorType(name="y", dtype=np.float32)],
                convert_to="mlprogram",
                minimum_deployment_target=ct.target.iOS17,
                skip_model_load=True,
                compute_precision=getattr(ct.precision, precision),
            )
            path = job.folder / f"{name}.{precision}.mlpackage"
            made.save(str(path))
            arrays[f"{name} {precision}"] = Evaluator(read_program(path))({"x": x.numpy()})["y"]
    return Reply(values={}, arrays=arrays)


def compacted(job: Job) -> Reply:
    """What a LiteRT file gives before and after it is written in fewer bytes."""
    from ai_edge_litert.interpreter import Interpreter

    from unplug.export.targets.flatbuffer import compact
    from unplug.export.targets.litert import TARGET, static
    from unplug.plugins import load_checkpoint

    model = load_checkpoint(job.values["checkpoint"]).model
    source = TargetSource(model=model, iospec=model.iospec, model_type="age")
    before, _ = TARGET.prepare(source)
    if job.values["precision"] == "int8-static":
        before = static(before, job.arrays)
    after, arrays = compact(before), {}
    for name, content in (("before", before), ("after", after)):
        runner = Interpreter(model_content=content).get_signature_runner("serving_default")
        answers = [runner(image=image[None])["age_logits"][0] for image in job.arrays["image"]]
        arrays[name] = np.stack(answers)
    values = {"same": compact(after) == after, "bytes": [len(before), len(after)]}
    return Reply(values=values, arrays=arrays)


def coreml_facts(job: Job) -> Reply:
    import coremltools

    facts = []
    for path in job.values["paths"]:
        spec = coremltools.utils.load_spec(path)
        sides = (spec.description.input, spec.description.output)
        kinds = {tensor.type.multiArrayType.dataType for side in sides for tensor in side}
        names = [[tensor.name for tensor in side] for side in sides]
        facts.append([names, sorted(kinds), spec.specificationVersion])
    return Reply(values={"facts": facts})


def onnx_facts(job: Job) -> Reply:
    import onnx

    facts = []
    for path in job.values["paths"]:
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        leaks = str(Path(__file__).parents[2]).encode() in model.SerializeToString()
        facts.append([leaks, model.opset_import[0].version])
    return Reply(values={"facts": facts})


def litert_operators(job: Job) -> Reply:
    from ai_edge_litert.interpreter import Interpreter

    nodes = Interpreter(job.values["path"])._get_ops_details()
    return Reply(values={"names": [node["op_name"] for node in nodes]})


class Odd(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"y": torch.special.bessel_j0(x)}


def odd(job: Job) -> Reply:
    """Converts a model with an operator that no target has."""
    x, y = (TensorSpec(name=name, shape=(1, 4), layout="NC") for name in "xy")
    source = TargetSource(model=Odd(), iospec=IOSpec(inputs=(x,), outputs=(y,)), model_type="odd")
    target = TARGETS.get(job.values["target"])
    target.write(target.prepare(source), "fp32", job.folder / f"odd{target.suffix}", {})
    return Reply(values={})
