"""The files of an ``.mlpackage``: one program, and constants in weight files next to it. Nothing of
them is trusted.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from unplug.core import ArtifactError

from ..artifact import MAX_ARTIFACT_BYTES

AGAIN = "Export it again"
ROOT = "@model_path/"
SENTINEL = 0xDEADBEEF
BLOB = struct.Struct("<IIQQ")  # sentinel, type, bytes, where they begin
MAX_WEIGHT_FILES = 256


class Package:
    """An opened package.

    Args:
        path: the ``.mlpackage`` folder.

    Raises:
        ArtifactError: no program in it, or one that cannot be parsed.
    """

    def __init__(self, path: Path) -> None:
        import torch  # noqa: F401  before coremltools: the other order can end in SIGSEGV where tensorflow is installed
        from coremltools.proto import Model_pb2
        from google.protobuf.message import DecodeError

        models = sorted(path.glob("Data/*/*.mlmodel"))
        if len(models) != 1:
            raise ArtifactError(str(path), f"it holds {len(models)} model files", AGAIN)
        self.path, self.folder = path, models[0].parent.resolve()
        if not models[0].resolve().is_relative_to(path.resolve()):
            raise ArtifactError(
                str(path), f"its {models[0].name} is a link that leads outside", AGAIN
            )
        if models[0].stat().st_size > MAX_ARTIFACT_BYTES:
            raise ArtifactError(
                str(path), f"its {models[0].name} is larger than {MAX_ARTIFACT_BYTES} bytes", AGAIN
            )
        self.spec: Any = Model_pb2.Model()
        self._files: dict[Path, bytes] = {}
        try:
            self.spec.ParseFromString(models[0].read_bytes())
        except DecodeError as error:
            raise ArtifactError(str(path), f"its program is broken ({error})", AGAIN) from error

    def blob(self, name: str, offset: int) -> memoryview:
        """The bytes of a constant in a weight file.

        Raises:
            ArtifactError: the name leads outside the package, or no constant begins there.
        """
        file = (self.folder / name.removeprefix(ROOT)).resolve()
        if not name.startswith(ROOT) or not file.is_relative_to(self.folder) or not file.is_file():
            raise ArtifactError(
                str(self.path),
                f"a constant lies in {name[:200]!r}, which is not a file of this package",
                AGAIN,
            )
        if file not in self._files:
            if len(self._files) >= MAX_WEIGHT_FILES or file.stat().st_size > MAX_ARTIFACT_BYTES:
                raise ArtifactError(
                    str(self.path), "it names too many or too large weight files", AGAIN
                )
            self._files[file] = file.read_bytes()
        content = self._files[file]
        try:
            sentinel, _, size, start = BLOB.unpack_from(content, offset)
        except (struct.error, OverflowError):
            sentinel = size = start = 0
        if sentinel != SENTINEL or start + size > len(content):
            raise ArtifactError(
                str(self.path), f"no constant begins at byte {offset} of its weight file", AGAIN
            )
        return memoryview(content)[start : start + size]
