"""A bundle as one zip file, the same bytes for the same bundle."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from unplug.core import OutputError, atomic_path

from .bundle import read_manifest
from .envelope import MAX_SIGNATURE_BYTES
from .generator import holds_generator, read_generator
from .manifest import MAX_MANIFEST_BYTES
from .refused import Refused
from .source import (
    MANIFEST,
    MAX_ARCHIVE_BYTES,
    SIGNATURE,
    blocks,
    check_listed,
    open_source,
    read_whole,
)

_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip file knows: when it was packed is nobody's business."""
_MODE = 0o100644 << 16


def pack_bundle(bundle: Path, out: Path) -> str:
    """Writes a bundle as a zip file, each file hashed as it is packed.

    Args:
        bundle: a folder, or a zip file, which is packed anew.
        out: the file to write.

    Returns:
        SHA-256 of the manifest, the bundle's id.

    Raises:
        Refused: ``changed``, ``missing``, ``unlisted``, ...: it is not what its manifest says.
        OutputError: it is larger than what readers take in one file.
    """
    files = (read_generator if holds_generator(bundle) else read_manifest)(bundle).files
    with open_source(bundle) as source:
        raw = read_whole(source, MANIFEST, MAX_MANIFEST_BYTES)
        whole = {MANIFEST: raw}
        if SIGNATURE in source.sizes:
            whole[SIGNATURE] = read_whole(source, SIGNATURE, MAX_SIGNATURE_BYTES)
        if sum(source.sizes.values()) > MAX_ARCHIVE_BYTES:
            raise OutputError(
                str(out), f"it holds more than {MAX_ARCHIVE_BYTES} bytes", "Ship it as a folder"
            )
        check_listed(source, files.keys() | {MANIFEST})
        with (
            atomic_path(out) as temporary,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
        ):
            for name, content in sorted(whole.items()):
                archive.writestr(_entry(name), content, zipfile.ZIP_DEFLATED)
            for name, entry in sorted(files.items()):
                hashed = hashlib.sha256()
                with archive.open(_entry(name), "w") as target:
                    for block in blocks(source, name):
                        hashed.update(block)
                        target.write(block)
                if hashed.hexdigest() != entry.sha256:
                    raise Refused("changed", source.label, f"{name} was changed")
    return hashlib.sha256(raw).hexdigest()


def _entry(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _LONG_AGO)
    # Unix (3) on every system: else the same bundle packed on Windows has other bytes
    info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, _MODE, 3
    return info
