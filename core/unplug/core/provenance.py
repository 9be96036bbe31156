"""Where a result comes from: package versions and the git revision of this code."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

VERSION = "0.1.0"
"""The version of unplug; the distribution takes it from here, so that a checkout that nobody
installed knows it as well.
"""
PACKAGES = ("torch", "numpy", "scipy", "pillow", "safetensors", "huggingface_hub")


def installed_versions(distributions: Iterable[str]) -> dict[str, str]:
    """Versions of Python, unplug and the named distributions; those that are not installed are left
    out.
    """
    known = {"python": platform.python_version(), "unplug": VERSION}
    for name in distributions:
        try:
            known[name] = version(name)
        except PackageNotFoundError:
            continue
    return known


@lru_cache(maxsize=1)
def git_revision() -> str | None:
    """The commit of the checkout that this file belongs to (``-dirty`` when edited), or None where
    it is not tracked.
    """
    here = Path(__file__)

    def git(*arguments: str) -> str | None:
        try:
            # Without optional locks `git status` writes nothing into the repository.
            command = ["git", "--no-optional-locks", "-C", str(here.parent), *arguments]
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    # An installed copy inside somebody's repository must not report that repository's commit.
    if git("ls-files", "--error-unmatch", here.name) is None:
        return None
    revision = git("rev-parse", "HEAD")
    return (
        f"{revision}-dirty"
        if revision and git("status", "--porcelain", "--untracked-files=no")
        else revision
    )


@cache
def versions() -> dict[str, str | None]:
    """Versions of Python, unplug and the packages that decide numbers, and the git revision of
    unplug's sources.
    """
    return {**installed_versions(PACKAGES), "git": git_revision()}
