"""What a result was made with: versions, platform, git revision."""

from __future__ import annotations

from functools import cache

from unplug.export.provenance import git_revision
from unplug.export.provenance import versions as installed

PACKAGES = ("torch", "numpy", "scipy", "pillow", "safetensors", "huggingface_hub")


@cache
def versions() -> dict[str, str | None]:
    """Versions of Python, unplug and the packages that decide numbers, and the git revision of unplug's sources."""
    return {**installed(PACKAGES), "git": git_revision()}
