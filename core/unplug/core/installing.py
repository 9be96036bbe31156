"""The one command that installs an extra, from where unplug was installed: the package index has no `unplug-sdk` to offer."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "unplug-sdk"
"""What pip calls the package that is imported as ``unplug``."""
CHECKOUT = Path(__file__).resolve().parents[3]
"""Where the sources lie, if this runs from them (installed with ``-e``, or on the path); else no folder of ours."""


def install_command(extra: str) -> str:
    """The command that adds an extra to this environment, whatever folder it is given in.

    Example:
        >>> install_command("run").endswith('[run]"')
        True
    """
    return f"{_installer()} {_wanted(extra)}"


def _installer() -> str:
    """The pip of this Python: by its name where the shell finds it, else through the interpreter, or uv where there is none."""
    here, found = Path(sys.executable).parent, shutil.which("pip")
    if find_spec("pip") is None:
        return f'uv pip install --python "{sys.executable}"'
    return "pip install" if found and Path(found).parent == here else f'"{sys.executable}" -m pip install'


def _wanted(extra: str) -> str:
    if (CHECKOUT / "pyproject.toml").is_file():
        return f'-e "{CHECKOUT}[{extra}]"'
    try:
        said = distribution(DISTRIBUTION).read_text("direct_url.json")  # PEP 610: absent where an index had it
    except PackageNotFoundError:
        said = None
    if said is None:
        return f'"{DISTRIBUTION}[{extra}]"'
    origin = json.loads(said)
    version = origin.get("vcs_info", {})
    url = f"{version['vcs']}+{origin['url']}@{version['commit_id']}" if version else origin["url"]
    return f'"{DISTRIBUTION}[{extra}] @ {url}"'
