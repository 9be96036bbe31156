"""The one command that installs an extra or the weights, from where unplug came from: the package
index has no `unplug-sdk`.
"""

from __future__ import annotations

import json
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DISTRIBUTION = "unplug-sdk"
"""What pip calls the package that is imported as ``unplug``."""
WEIGHTS = "unplug-weights"
"""What pip calls the weights that ship."""
WEIGHTS_FOLDER = "sdk/weights"
"""Where they lie in a checkout."""
CHECKOUT = Path(__file__).resolve().parents[3]
"""Where the sources lie, if this runs from them (installed with ``-e``, or on the path); else no
folder of ours.
"""


def install_command(extra: str) -> str:
    """The command that adds an extra to this environment, whatever folder it is given in.

    Example:
        >>> install_command("run").endswith('[run]"')
        True
    """
    return f"{_installer()} {_wanted(extra)}"


def install_weights(version: str, *, again: bool = False) -> str:
    """The command that installs the weights that ship, from where unplug came from.

    Args:
        version: the version of the weights.
        again: also over the same version, whose files are no longer what they were.
    """
    force = "--force-reinstall --no-deps " if again else ""
    return f"{_installer()} {force}{_wanted_weights(version)}"


def _installer() -> str:
    """The pip of this Python: by its name where the shell finds it, else through the interpreter,
    or uv where there is none.
    """
    here, pip = Path(sys.executable).parent, shutil.which("pip")
    if find_spec("pip") is None:
        return f'uv pip install --python "{sys.executable}"'
    return (
        "pip install" if pip and Path(pip).parent == here else f'"{sys.executable}" -m pip install'
    )


def _wanted(extra: str) -> str:
    if (CHECKOUT / "pyproject.toml").is_file():
        return f'-e "{CHECKOUT}[{extra}]"'
    origin = _origin()
    if not origin:
        return f'"{DISTRIBUTION}[{extra}]"'
    return f'"{DISTRIBUTION}[{extra}] @ {_address(origin)}"'


def _wanted_weights(version: str) -> str:
    if (CHECKOUT / WEIGHTS_FOLDER / "pyproject.toml").is_file():
        return f'"{CHECKOUT / WEIGHTS_FOLDER}"'
    origin = _origin()
    if "vcs_info" in origin:
        return f'"{WEIGHTS} @ {_address(origin)}#subdirectory={WEIGHTS_FOLDER}"'
    if "dir_info" in origin:
        return f'"{WEIGHTS} @ {_address(origin)}/{WEIGHTS_FOLDER}"'
    return f'"{WEIGHTS}=={version}"'


def _origin() -> dict[str, Any]:
    """The place that pip took unplug from (PEP 610); empty where an index had it."""
    try:
        record = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        record = None
    origin: dict[str, Any] = json.loads(record) if record else {}
    return origin


def _address(origin: dict[str, Any]) -> str:
    version = origin.get("vcs_info")
    if version is None:
        return str(origin["url"])
    return f"{version['vcs']}+{origin['url']}@{version['commit_id']}"
