"""Optional packages: looked for without importing them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from .errors import MissingExtraError

OF_TRAINING = ("torch", "cv2", "huggingface_hub", "safetensors")
"""Import names of what the extra ``[train]`` installs; a command that needs one imports it at its top."""


def extra_of(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The same error with the pip command, or None where the module is not one of ``[train]``.

    Example:
        >>> extra_of(ModuleNotFoundError(name="torch.nn")).extra
        'train'
    """
    package = (error.name or "").partition(".")[0]
    return MissingExtraError(package, "train") if package in OF_TRAINING else None


def require_modules(modules: Iterable[str], extra: str) -> None:
    """Raises unless the packages of all `modules` are installed.

    Args:
        modules: import names; of ``a.b`` only ``a`` is looked for, because finding ``a.b`` would import ``a``.
        extra: the unplug extra that installs them.

    Raises:
        MissingExtraError: names the first that is missing, and the pip command.

    Example:
        >>> require_modules(["json.decoder"], "none")
    """
    for module in modules:
        package = module.partition(".")[0]
        if find_spec(package) is None:
            raise MissingExtraError(package, extra)
