"""What runs of a bundle: the member, the file that can, and the decision and the frame of faces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unplug.core import InputError, MissingExtraError, require_modules

from .alignment import Frame, frame_in
from .decision_record import DecisionRecord, decision_in
from .family import FRAME_MS, FamilyMember, choose_member, family_in

if TYPE_CHECKING:
    from unplug.trust.bundle import Trust


def open_bundle(
    model: Path, trust: Trust | None
) -> tuple[Path, FamilyMember | None, DecisionRecord | None, Frame | None]:
    """The file that is run, and what a bundle, which is verified first, carries; of anything else
    the path itself. Of a family it is a file of the best member that takes at most `FRAME_MS`.
    """
    if not (model / "manifest.json").is_file():
        return model, None, None, None
    from unplug.trust.bundle import exported_files, verify_bundle

    manifest, where = verify_bundle(model, trust), str(model / "manifest.json")
    family = family_in(manifest.postprocessing, where)
    member = None if family is None else choose_member(family.members, FRAME_MS)
    own = member is None or member.checkpoint_sha256 == manifest.lineage.checkpoint_sha256
    place = "artifacts" if own or member is None else f"members/{member.name}"
    return (
        runnable_file(model, [model / name for name in exported_files(manifest, place)]),
        member,
        decision_in(manifest.postprocessing, where),
        frame_in(manifest.preprocessing, where),
    )


def runnable_file(model: Path, paths: Sequence[Path]) -> Path:
    """The first file whose own runtime is installed and runs here; else the first that a stand-in
    runs.
    """
    from unplug.export import STAND_INS, load_artifact, runtime_of

    runtimes = {path: runtime_of(load_artifact(path)) for path in paths}
    missing, reasons = list[MissingExtraError](), list[str]()
    for path in sorted(paths, key=lambda path: runtimes[path].name in STAND_INS.values()):
        if (reason := runtimes[path].unavailable()) is not None:
            reasons.append(f"{path.name}: {reason}")
            continue
        try:
            require_modules(runtimes[path].modules, runtimes[path].extra)
        except MissingExtraError as error:
            missing.append(error)
        else:
            return path
    if missing:
        raise missing[0]
    raise InputError(
        str(model), f"none of its files runs here ({'; '.join(reasons)})", "Run it elsewhere"
    )


def model_sha256(model: Path) -> str:
    """The SHA-256 of the weights of a checkpoint, or of an exported file."""
    from unplug.export import load_artifact
    from unplug.plugins import weights_sha256

    return (
        weights_sha256(model)
        if (model / "config.json").is_file()
        else load_artifact(model).card.sha256
    )
