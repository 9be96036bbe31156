"""The exported files that somebody names: by themselves, or all those of a bundle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unplug.core import InputError

from .bundle import verify_bundle
from .manifest import Manifest
from .trust import Trust


def artifact_paths(subjects: Sequence[Path], trust: Trust | None = None) -> list[Path]:
    """Exported files that are named, and those that named bundles hold.

    Args:
        subjects: files, and folders of bundles.
        trust: who may have signed the bundles, see `verify_bundle`.

    Raises:
        InputError: a subject that is neither.
        BundleCheckFailed: a bundle that is not what its manifest says.
    """
    found: list[Path] = []
    for subject in subjects:
        if not subject.exists():
            raise InputError(str(subject), "no such checkpoint, exported file or bundle", "Check the path")
        if (subject / "manifest.json").is_file():
            found += [subject / name for name in _exported(verify_bundle(subject, trust))]
        else:
            found.append(subject)
    return found


def _exported(manifest: Manifest) -> list[str]:
    cards = (name for name in manifest.files if name.startswith("artifacts/") and name.count("/") == 1)
    return sorted(name.removesuffix(".json") for name in cards if name.endswith(".json"))
