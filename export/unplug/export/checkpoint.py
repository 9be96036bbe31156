"""A checkpoint next to its artifacts: its own outputs, which parity compares against, and itself in
an artifact's place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unplug.core import Array, IOSpec, Job, Reply, call_in_child, installed_versions, memory_for
from unplug.plugins import read_config, weights_bytes, weights_files, weights_sha256

from .artifact import Artifact, Card
from .convert import count_work
from .targets.base import TargetSource
from .tensors import check_inputs, relaid

FULL, HALF = "full ", "half "
"""In front of the names of outputs that the child sends back."""
BATCH = 16  # bounds the memory of one forward pass


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The outputs of a checkpoint on some inputs.

    Args:
        checkpoint_sha256, model_type: the checkpoint's hash and model type.
        outputs: the outputs by name.
        halves: the outputs in half precision, see `unplug.export.halves`, or None where nobody
            asked.
        trouble: the tensor that overflows in it, or None.
    """

    checkpoint_sha256: str
    model_type: str
    outputs: dict[str, Array]
    halves: dict[str, Array] | None = None
    trouble: str | None = None


def reference_outputs(
    checkpoint: Path,
    iospec: IOSpec,
    inputs: Mapping[str, Array],
    *,
    view: str | None = None,
    halves: bool = False,
) -> Reference:
    """Runs a checkpoint on named inputs.

    Args:
        checkpoint: its folder.
        iospec: the named tensors that the inputs must fit.
        inputs: name to array of N samples.
        view: another way to run its weights, see `unplug.plugins.load_checkpoint`.
        halves: whether to run it in half precision too.

    Raises:
        InputError: an input is missing, unknown or of another shape.
        CheckpointError: the checkpoint is missing or broken.
    """
    check_inputs(iospec, inputs)
    values = {
        "checkpoint": str(Path(checkpoint).resolve()),
        "iospec": iospec.to_dict(),
        "view": view,
        "halves": halves,
    }
    reply = call_in_child(
        "unplug.export.checkpoint:run_checkpoint",
        values,
        inputs,
        what=f"reference run of {checkpoint}",
        memory=memory_for(*weights_files(Path(checkpoint))),
    )

    def outputs(kind: str) -> dict[str, Array]:
        names = [name for name in reply.arrays if name.startswith(kind)]
        return {name.removeprefix(kind): reply.arrays[name] for name in names}

    return Reference(
        checkpoint_sha256=reply.values["checkpoint_sha256"],
        model_type=reply.values["model_type"],
        outputs=outputs(FULL),
        halves=outputs(HALF) if halves else None,
        trouble=reply.values["trouble"],
    )


def run_checkpoint(job: Job) -> Reply:
    """The child's side of `reference_outputs`."""
    import torch

    from unplug.plugins import load_checkpoint

    from .halves import Halves

    checkpoint = load_checkpoint(job.values["checkpoint"], view=job.values["view"])
    asked, model_spec = IOSpec.from_dict(job.values["iospec"]), checkpoint.model.iospec
    given = relaid(asked.inputs, job.arrays, model_spec.inputs)
    arrays = [given[tensor.name] for tensor in model_spec.inputs]
    halves = Halves(checkpoint.model)
    ways = {FULL: lambda batch: checkpoint.model(*batch)} | (
        {HALF: halves} if job.values["halves"] else {}
    )
    answers: dict[str, Array] = {}
    for kind, run in ways.items():
        parts: dict[str, list[Array]] = {}
        for start in range(0, len(arrays[0]), BATCH):
            # np.array copies: torch warns about memory that it could not write to.
            batch = [torch.from_numpy(np.array(array[start : start + BATCH])) for array in arrays]
            with torch.no_grad():
                for name, tensor in model_spec.name_outputs(run(batch)).items():  # type: ignore[no-untyped-call]
                    parts.setdefault(name, []).append(tensor.numpy())
        outputs = relaid(
            model_spec.outputs,
            {name: np.concatenate(pieces) for name, pieces in parts.items()},
            asked.outputs,
        )
        answers |= {f"{kind}{name}": array for name, array in outputs.items()}
    values = {
        "checkpoint_sha256": checkpoint.sha256,
        "model_type": checkpoint.model_type,
        "trouble": halves.trouble,
    }
    return Reply(values=values, arrays=answers)


TARGET = "checkpoint"
"""What its card says as target: it has none."""


def checkpoint_artifact(folder: Path) -> Artifact:
    """A checkpoint as it is, in fp32.

    Raises:
        CheckpointError: it is missing or broken.
    """
    model_type, config = read_config(folder)
    values = {"checkpoint": str(folder.resolve())}
    facts = call_in_child(
        "unplug.export.checkpoint:describe",
        values,
        what=f"reading {folder.name}",
        memory=memory_for(*weights_files(folder)),
    ).values
    digest = weights_sha256(folder)
    card = Card(
        target=TARGET,
        precision="fp32",
        file=folder.resolve().name,
        sha256=digest,
        bytes=weights_bytes(folder),
        model_type=model_type,
        iospec=IOSpec.from_dict(facts["iospec"]),
        config=config,
        checkpoint_sha256=digest,
        flops=facts["flops"],
        parameters=facts["parameters"],
        versions=installed_versions(["torch"]),
        seconds=0.0,
        prepare_seconds=0.0,
    )
    return Artifact(path=folder, card=card)


def describe(job: Job) -> Reply:
    """The child's side: tensors and work of the model."""
    from unplug.plugins import load_checkpoint

    checkpoint = load_checkpoint(job.values["checkpoint"])
    iospec = checkpoint.model.iospec
    flops, parameters = count_work(
        TargetSource(model=checkpoint.model, iospec=iospec, model_type=checkpoint.model_type)
    )
    return Reply(values={"iospec": iospec.to_dict(), "flops": flops, "parameters": parameters})
