"""What is certified of a bundle, by its kind: a model that forgot people, or a base that packs left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from unplug.core import InputError, json_sha256
from unplug.trust.bundle import (
    PIPELINE,
    DroppedPacks,
    GeneratorManifest,
    Manifest,
    Trust,
    bundle_id,
    holds_generator,
    read_generator,
    read_manifest,
    verify_bundle,
    verify_dropped,
)
from unplug.trust.ledger import CommittedList

from .absent import list_in
from .certificate import Evidence, ModelLine
from .evidence import evidence_of, file_lines, gate_line, model_line

PACKS = "base with packs"
"""`ModelLine.model_type` of a base that packs left."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """A bundle that was verified, and what a certificate says of it."""

    manifest: Manifest | GeneratorManifest
    model: ModelLine
    evidence: Evidence
    listed: CommittedList | None = None


def described(
    bundle: Path, superseded: Path | None, trust: Trust, now: datetime | None = None
) -> Described:
    """Verifies a bundle, and says what there is to certify.

    Args:
        bundle: the bundle of a model, or of a base that packs left.
        superseded: the earlier bundle of a base, which had the packs.
        trust: the keys that count if it is signed.
        now: see `verify_bundle`.

    Raises:
        InputError: `superseded` is missing, or given of a model.
        Refused, BundleCheckFailed, CheckFailed: see `verify_bundle` and `verify_dropped`.
        ReportError: see `evidence_of`.
    """
    if holds_generator(bundle):
        if superseded is None:
            why = "it is missing: that packs left is shown by equality with the bundle before"
            raise InputError("`superseded`", why, "Give the bundle that had them")
        known = None if read_generator(bundle).publication is None else trust
        manifest = verify_dropped(bundle, superseded, known, now=now)
        assert manifest.dropped is not None, "it was verified"
        return Described(
            manifest=manifest,
            model=_packs_line(bundle, manifest, manifest.dropped),
            evidence=_equality(manifest),
        )
    if superseded is not None:
        why = "it is of a base that packs left, and this is the bundle of a model"
        raise InputError("`superseded`", why, "Leave it out")
    known = None if read_manifest(bundle).publication is None else trust
    model = verify_bundle(bundle, known, now=now)
    return Described(
        manifest=model,
        model=model_line(bundle, model),
        evidence=evidence_of(bundle, model),
        listed=list_in(bundle, model),
    )


def _packs_line(bundle: Path, manifest: GeneratorManifest, dropped: DroppedPacks) -> ModelLine:
    """Manifest and ``pipeline.json`` name all weights by their SHA-256, and stand for them."""
    publication = manifest.publication
    left = [
        f"pack {pack.sha256} {'deleted' if pack.again is None else f'trained again as {pack.again}'}"
        for pack in dropped.packs
    ]
    return ModelLine(
        bundle=bundle_id(bundle),
        product=None if publication is None else publication.name,
        release=None if publication is None else publication.release,
        model_type=PACKS,
        original_sha256=dropped.before,
        checkpoint_sha256=manifest.files[PIPELINE].sha256,
        data_digest=json_sha256([pack.sha256 for pack in dropped.packs]),
        forget_samples=len(left),
        method=f"{'; '.join(left)}; all other parts equal",
        compute=0.0,
        files=file_lines(manifest.files),
        versions={},
    )


def _equality(manifest: GeneratorManifest) -> Evidence:
    return Evidence(
        shown_by="equality",
        beside="the bundle before, without the packs that left",
        attacks=(),
        use=(),
        unit="loss",
        too_few=None,
        alarms=(),
        gates=tuple(map(gate_line, manifest.gates)),
        overrides=(),
        skipped={},
    )
