"""``unplug bundle``: verify, inspect."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from .base import Common, Outcome, command, percent


@click.group()
def bundle() -> None:
    """Verify or inspect a bundle."""


@bundle.command()
@click.argument("path", type=click.Path(path_type=Path))
@command
def verify(path: Path, common: Common) -> Outcome:
    """Check files, gates and hashes (exit 1: a file is missing, changed or extra, a gate failed, two models are mixed)."""
    from unplug.sdk.bundle import verify_bundle

    manifest = verify_bundle(path)
    count = len(manifest.files)
    held = len(manifest.gates)
    text = (
        f"{path}: {count} files match the manifest, all {held} gates hold, and all of it is about one model. "
        "It is not signed: this shows integrity, not origin."
    )
    return Outcome(value={"bundle": str(path), "files": count, "gates": held, "signed": False}, text=text)


@bundle.command()
@click.argument("path", type=click.Path(path_type=Path))
@command
def inspect(path: Path, common: Common) -> Outcome:
    """Show what a bundle holds and where it comes from."""
    from unplug.sdk.bundle import read_manifest

    manifest = read_manifest(path)
    lineage = manifest.lineage
    lines = [
        f"{path}: {manifest.model_type}",
        f"forgot {lineage.forget_samples} samples by {lineage.method} at {percent(lineage.compute_fraction)} of retraining",
        f"checkpoint {lineage.checkpoint_sha256[:16]}  original {lineage.original_sha256[:16]}",
        *(f"{entry.bytes:>12,}  {name}" for name, entry in sorted(manifest.files.items())),
    ]
    return Outcome(value=asdict(manifest), text="\n".join(lines))
