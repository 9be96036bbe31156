"""A checkpoint folder in the place of an artifact, so that a benchmark can time PyTorch beside what was exported from it."""

from __future__ import annotations

from pathlib import Path

from unplug.core import IOSpec, Job, Reply, call_in_child, installed_versions, sha256_file
from unplug.plugins import read_config, weights_file

from .artifact import Artifact, Card
from .convert import count_work
from .targets.base import Source

TARGET = "checkpoint"
"""What its card says as target: it has none."""


def checkpoint_artifact(folder: Path) -> Artifact:
    """A checkpoint as it is, in fp32.

    Raises:
        CheckpointError: it is missing or broken.
    """
    model_type, config = read_config(folder)
    values = {"checkpoint": str(folder.resolve())}
    found = call_in_child("unplug.export.unexported:describe", values, what=f"reading {folder.name}").values
    weights = weights_file(folder)
    digest = sha256_file(weights)
    card = Card(
        target=TARGET, precision="fp32", file=folder.resolve().name, sha256=digest, bytes=weights.stat().st_size,
        model_type=model_type, iospec=IOSpec.from_dict(found["iospec"]), config=config, checkpoint_sha256=digest,
        flops=found["flops"], parameters=found["parameters"], versions=installed_versions(["torch"]),
        seconds=0.0, prepare_seconds=0.0,
    )  # fmt: skip
    return Artifact(path=folder, card=card)


def describe(job: Job) -> Reply:
    """The child's side: tensors and work of the model."""
    from unplug.plugins import load_checkpoint

    checkpoint = load_checkpoint(job.values["checkpoint"])
    iospec = checkpoint.model.iospec
    flops, parameters = count_work(Source(model=checkpoint.model, iospec=iospec, model_type=checkpoint.model_type))
    return Reply(values={"iospec": iospec.to_dict(), "flops": flops, "parameters": parameters})
