"""A Python in which packages are as if they were not installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

BASE = ("click", "cryptography", "pydantic", "rfc8785")
"""What a plain ``pip install unplug-sdk`` brings."""
FINDER = """
import re, sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

def closure(names):
    seen, todo = set(), list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            continue
        todo += [re.match(r"[A-Za-z0-9._-]+", line)[0] for line in lines if "extra ==" not in line]
    return seen

allowed = closure(ALLOWED) | {"unplug-sdk"}
owners = packages_distributions()
BLOCKED = {
    module for module, names in owners.items()
    if not {re.sub(r"[-_.]+", "-", name).lower() for name in names} & allowed
} | ALSO

class Finder:  # torch probes for some
    def __init__(self, real):
        self.real = real

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in BLOCKED else self.real.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.real, name)

sys.meta_path[:] = [Finder(finder) for finder in sys.meta_path]
"""


def with_only(distributions: Collection[str], *, without: Collection[str] = ()) -> str:
    """Code that hides every installed package but some, and what those need.

    Args:
        distributions: that stay.
        without: import names that are hidden all the same.
    """
    return f"ALLOWED, ALSO = {tuple(distributions)!r}, {set(without) or set()!r}\n{FINDER}"


def python(code: str, *, cwd: Path | None = None) -> str:
    """Standard output of a fresh interpreter; its standard error is the failure message."""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=cwd, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
