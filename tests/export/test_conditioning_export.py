"""The conditioning plugin exported: names, parity on every target, and what parity must not let through."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from unplug.export import PRECISIONS, Artifact, export_checkpoint, load_artifact, measure_parity, random_inputs
from unplug.export.child import call_in_child
from unplug.export.metrics import compare, verdict
from unplug.export.reference import Reference, reference_outputs
from unplug.plugins import ConditioningPlugin, load_checkpoint, save_checkpoint

SIDE, SAMPLES = 64, 2
CROSS, PLAIN = "CrossAttnDownBlock2D", "DownBlock2D"
BASE = {
    "block_out_channels": [32, 48, 64, 64],
    "down_block_types": [CROSS, CROSS, CROSS, PLAIN],
    "sample_size": SIDE // 8,
}
OUTPUTS = [f"adapter_res_samples_{index:02d}" for index in range(4)]
SHAPES = [(1, 32, 8, 8), (1, 48, 4, 4), (1, 64, 2, 2), (1, 64, 1, 1)]


def save_plugin(path: Path, *, trained: bool) -> Path:
    torch.manual_seed(0)
    plugin = ConditioningPlugin.for_unet(BASE, condition="canny", size="nano", input_range=(-1.0, 1.0)).train()
    if trained:
        with torch.no_grad():
            for projection in plugin.projections:
                nn.init.normal_(projection.weight, std=0.2)
                nn.init.normal_(projection.bias, std=0.2)
            for _ in range(5):
                plugin(torch.rand(4, 3, SIDE, SIDE) * 2 - 1)
    save_checkpoint(plugin.eval(), path, record={}, card="A test plugin.")
    return path


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_plugin(tmp_path_factory.mktemp("plugin") / "trained", trained=True)


@pytest.fixture(scope="session")
def files(plugin: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """All pairs; tests must not write to these files."""
    made = export_checkpoint(
        plugin, targets=("litert", "coreml", "onnx"), precisions=("fp32", "fp16"), out=tmp_path_factory.mktemp("out"), workers=2
    )
    return {artifact.path.name: artifact for artifact in made}


def test_files_cards_and_names(files: dict[str, Artifact], plugin: Path) -> None:
    assert sorted(files) == sorted(f"plugin.{p}.{s}" for p in ("fp32", "fp16") for s in ("tflite", "mlpackage", "onnx"))
    source = load_checkpoint(plugin)
    for artifact in files.values():
        card = load_artifact(artifact.path).card
        assert card.iospec == source.model.iospec and card.checkpoint_sha256 == source.sha256
        assert [tensor.name for tensor in card.iospec.outputs] == OUTPUTS
        assert [tensor.shape for tensor in card.iospec.outputs] == SHAPES
        assert (card.iospec.inputs[0].name, card.iospec.inputs[0].range) == ("condition", (-1.0, 1.0))
        assert card.model_type == "plugin" and card.config["condition"] == "canny"
        assert card.flops is not None and card.flops > 1e5


def test_parity_on_what_runs_everywhere(files: dict[str, Artifact], plugin: Path) -> None:
    chosen = [artifact for artifact in files.values() if artifact.card.target != "coreml"]
    report = measure_parity(chosen, plugin, random_inputs(chosen[0].card.iospec, SAMPLES, seed=0))
    assert report.passed and len(report.rows) == 16
    for row in report.rows:
        assert row.status == "pass", row
        assert row.psnr_db is not None and not row.exact, "the same bits would mean that nothing was computed apart"
        assert row.cosine is not None and row.cosine > 0.999
    assert {row.output for row in report.rows} == set(OUTPUTS)


def test_zeros_of_an_untrained_plugin_are_no_parity(
    files: dict[str, Artifact], plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact = files["plugin.fp32.onnx"]
    zeros = {name: np.zeros(shape, np.float32) for name, shape in zip(OUTPUTS, SHAPES, strict=True)}
    reference = Reference(checkpoint_sha256=artifact.card.checkpoint_sha256, model_type="plugin", outputs=zeros)
    monkeypatch.setattr("unplug.export.parity.reference_outputs", lambda *_: reference)
    monkeypatch.setattr("unplug.export.parity.Session.run", lambda *_: zeros)
    report = measure_parity(artifact, plugin, random_inputs(artifact.card.iospec, 1, seed=0))
    assert not report.passed
    for row in report.rows:
        assert row.status == "fail" and row.exact
        assert row.reason is not None and row.reason.startswith("the checkpoint gives zeros only")


EVALUATE = """
import numpy as np
import torch
from pathlib import Path
from unplug.export.child import Reply

DTYPES = {"fp32": torch.float32, "fp16": torch.float16}

def conv(x, weight, bias, strides, pad, pad_type, groups, dilations):
    sides = {"valid": [0] * 4, "custom": list(pad)}[pad_type]
    assert len(set(sides)) == 1, sides
    return torch.nn.functional.conv2d(x, weight, bias, tuple(strides), int(sides[0]), tuple(dilations), int(groups))

OPS = {
    "conv": conv,
    "clip": lambda x, alpha, beta: x.clamp(float(alpha), float(beta)),
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "cast": lambda x, dtype: x.to(DTYPES[dtype]),
}

def constant(value):
    array = np.asarray(value)
    return torch.from_numpy(np.array(array)) if array.dtype.kind == "f" else value

def run(operations, inputs, plant):
    found = {name: torch.from_numpy(np.array(array)) for name, array in inputs.items()}
    for op in operations:
        if op.op_type == "const":
            continue
        given = {name: var for name, var in op.inputs.items() if not name.startswith("_")}
        arguments = {name: found[var.name] if var.name in found else constant(var.val) for name, var in given.items()}
        if plant and op.op_type == "conv":
            plant = False
            arguments["weight"].view(-1)[0] *= -1
        found[op.outputs[0].name] = OPS[op.op_type](**arguments)
    return found

def evaluate(job):
    import coremltools
    from coremltools.converters.mil.frontend.milproto.load import load
    arrays, names = {}, []
    for precision, path in job.values["paths"].items():
        spec = coremltools.utils.load_spec(path)
        program = load(spec, spec.specificationVersion, file_weights_dir=str(next(Path(path).glob("Data/*/weights"))))
        names.append([output.name for output in spec.description.output])
        for case in ("right", "planted"):
            found = run(program.functions["main"].operations, job.arrays, case == "planted")
            arrays |= {f"{precision} {case} {name}": found[name].float().numpy() for name in names[-1]}
    return Reply(values={"names": names}, arrays=arrays)
"""


@pytest.mark.skipif(sys.platform == "darwin", reason="Core ML itself runs on macOS")
def test_core_ml_programs_agree_operator_by_operator(
    files: dict[str, Artifact], plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operator computed by torch in the precision that the file stores; a batch goes through at once."""
    (tmp_path / "evaluate_program.py").write_text(EVALUATE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    paths = {precision: str(files[f"plugin.{precision}.mlpackage"].path) for precision in ("fp32", "fp16")}
    spec = files["plugin.fp32.mlpackage"].card.iospec
    inputs = random_inputs(spec, SAMPLES, seed=0)
    wanted = reference_outputs(plugin, spec, inputs).outputs
    reply = call_in_child("evaluate_program:evaluate", {"paths": paths}, inputs, what="ML Program")
    assert reply.values["names"] == [OUTPUTS, OUTPUTS]
    for precision in paths:
        needed = PRECISIONS.get(precision).min_psnr_db
        found = {
            case: [verdict(compare(wanted[name], reply.arrays[f"{precision} {case} {name}"]), needed) for name in OUTPUTS]
            for case in ("right", "planted")
        }
        assert found["right"] == [None] * len(OUTPUTS), precision
        assert any(found["planted"]), "one flipped weight went unseen"
