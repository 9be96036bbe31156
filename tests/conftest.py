"""Two cores, one process, a cache and a key of its own: no test reads what an earlier run left
behind.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

collect_ignore = ["cases"]
"""Inputs, not tests: some are programs that write files when they are imported."""

# no clock decides a test
settings.register_profile("unplug", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unplug")


@pytest.fixture(scope="session", autouse=True)
def _quiet_machine(tmp_path_factory: pytest.TempPathFactory) -> None:
    import torch

    if (
        signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ):  # as a shell starts what it puts into the background
        # the commands under test must hear Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    os.environ["UNPLUG_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    key = tmp_path_factory.mktemp("key") / "key"
    key.touch(0o600)
    # the same in all processes of a run, which share models
    key.write_text(f"unplug-key/1 {'5a' * 32}\n")
    os.environ["UNPLUG_KEY"] = str(key)
    os.environ["UNPLUG_LEDGER"] = str(key.with_name("ledger.db"))  # none is there
    os.environ["UNPLUG_TIMEZONE"] = "UTC"
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))
    # Factories in here are named by tests, and nothing is searched for in the working folder unless
    # PYTHONPATH names it.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    )
