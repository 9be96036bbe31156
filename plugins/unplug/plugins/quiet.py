"""Libraries that talk to their own developers while they are imported."""

from __future__ import annotations

import logging
import warnings


def quiet_diffusers() -> None:
    """Before importing diffusers: it imports torchao where it is installed, which tells what it could not load."""
    for name in ("torchao", "torch.utils._pytree", "diffusers.quantizers"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"diffusers\.")
