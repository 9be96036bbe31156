"""Libraries that talk to their own developers while they are imported and while they load."""

from __future__ import annotations

import contextlib
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any

IMPORTING = ("torchao", "torch.utils._pytree", "diffusers.quantizers")
"""Loggers that tell of optional packages while diffusers is imported."""


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Around our own calls: no bars, deprecations and hints of diffusers and transformers; after it
    all is as it was.

    They tell of an error before they raise it, and draw a bar for each file. The process belongs to
    somebody else, who may want to read what they say elsewhere.
    """
    from huggingface_hub import utils

    hub: Any = utils
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"diffusers\.")
        for logger in map(logging.getLogger, IMPORTING):
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.ERROR)
        for name in ("diffusers", "transformers"):
            if (theirs := sys.modules.get(f"{name}.utils.logging")) is not None:
                stack.callback(theirs.set_verbosity, theirs.get_verbosity())
                theirs.set_verbosity(logging.CRITICAL)
                if theirs.is_progress_bar_enabled():
                    if hub.are_progress_bars_disabled():  # transformers' switch turns those as well
                        stack.callback(hub.disable_progress_bars)
                    stack.callback(theirs.enable_progress_bar)
                    theirs.disable_progress_bar()
        # the hub's bars may be off for good, and it warns that they stay off
        stack.callback(warnings.simplefilter, "ignore")
        yield
