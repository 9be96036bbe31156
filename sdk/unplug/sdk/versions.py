"""What a result was made with: versions, platform, git revision."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("unplug", "torch", "numpy", "scipy", "pillow", "safetensors", "huggingface_hub")


@cache
def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that decide numbers, and the git revision of unplug's own sources."""
    found: dict[str, str | None] = {"python": platform.python_version(), "platform": platform.platform()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return {**found, "git": git_revision()}


def git_revision() -> str | None:
    """Revision of the checkout that unplug runs from, with ``+`` for uncommitted changes; None when installed."""
    here = Path(__file__).resolve().parent
    try:
        head = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            cwd=here, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
        tracked = subprocess.run(["git", "ls-files", "--error-unmatch", __file__], cwd=here, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() if tracked.returncode == 0 else None
