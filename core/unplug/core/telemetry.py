"""What other packages would tell their makers is off in this process and its children, unless the
user switched it on.
"""

from __future__ import annotations

import os

OFF = {
    # ONNX Runtime 1.29 and later: a device id, queued events, a look-up at every use
    "ORT_DISABLE_TELEMETRY": "1",
    # huggingface_hub, and transformers and diffusers, which ask it
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "DO_NOT_TRACK": "1",  # https://donottrack.sh, the common variable
}
"""Environment variables, read by those packages while they are imported."""


def disable_telemetry() -> None:
    """Sets every variable of `OFF` that is not set; children inherit them. Importing `unplug.core`
    calls it.
    """
    for name, value in OFF.items():
        os.environ.setdefault(name, value)
