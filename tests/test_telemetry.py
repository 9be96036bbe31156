"""Nobody is told anything: what dependencies would send is off. test_traces.py watches a whole
journey.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from unplug.core.telemetry import OFF, disable_telemetry


def test_it_is_off_unless_the_user_switched_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OFF:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "0")
    disable_telemetry()
    assert {name: os.environ[name] for name in OFF} == {**OFF, "HF_HUB_DISABLE_TELEMETRY": "0"}


@pytest.mark.parametrize("package", ["plugins", "export", "mobile_bench", "sdk"])
def test_every_package_switches_it_off_before_it_imports_anything_else(package: str) -> None:
    """No clean environment is inherited: this process imported unplug already."""
    lean = {name: value for name, value in os.environ.items() if name not in OFF}
    code = (
        f"import os, unplug.{package}; print([name for name in {list(OFF)!r} if name not in "
        "os.environ])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], env=lean, text=True) == "[]\n"
