"""Silence is lent for our own calls: what a process heard before, it hears after."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import warnings

import pytest

from unplug.core import quiet
from unplug.core.silence import IMPORTING

pytest.importorskip(
    "diffusers", reason="diffusers is not installed: pip install 'unplug-sdk[diffusion]'"
)

STATE = """
import json, logging, warnings
from huggingface_hub import utils as hub
import diffusers, transformers
def state():
    theirs = diffusers.utils.logging, transformers.utils.logging
    return [[one.get_verbosity(), one.is_progress_bar_enabled()] for one in theirs] + [
        hub.are_progress_bars_disabled(), [logging.getLogger(name).level for name in ("torchao", "diffusers.quantizers")],
        [str(item) for item in warnings.filters]]
"""


def ran(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("environment", [{}, {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}])
def test_a_process_is_left_as_it_was(environment: dict[str, str]) -> None:
    """By importing the plugin, and by silence within silence."""
    code = f"""{STATE}
from diffusers import StableDiffusionPipeline
diffusers.utils.logging.set_verbosity_info()
before = state()
from unplug.plugins import ConditioningPlugin
from unplug.core.silence import quiet
with quiet(), quiet():
    assert diffusers.utils.logging.get_verbosity() == logging.CRITICAL
    assert not transformers.utils.logging.is_progress_bar_enabled()
assert state() == before, (before, state())
print(ConditioningPlugin.__name__)
"""
    done = ran(code, **environment)
    assert done.stdout == "ConditioningPlugin\n", done.stderr


def test_importing_the_plugin_says_nothing() -> None:
    done = ran("from unplug.plugins import ConditioningPlugin; print(ConditioningPlugin.__name__)")
    assert (done.stdout, done.stderr) == ("ConditioningPlugin\n", "")


def test_an_error_ends_the_silence() -> None:
    loggers = [logging.getLogger(name) for name in IMPORTING]
    before, filters = [logger.level for logger in loggers], list(warnings.filters)
    with pytest.raises(KeyError), quiet():
        assert all(logger.level == logging.ERROR for logger in loggers)
        raise KeyError
    assert [logger.level for logger in loggers] == before and warnings.filters == filters
