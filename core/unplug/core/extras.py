"""Optional packages: looked for without importing them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from .errors import MissingExtraError

EXTRAS = {
    "arrays": ("numpy", "PIL", "psutil", "tqdm"),
    "run": ("ai_edge_litert", "onnxruntime"),
    "report": ("jinja2", "matplotlib", "scipy"),
    "train": ("torch", "cv2", "huggingface_hub", "safetensors", "scipy"),
    "onnx": ("onnx", "onnxscript"),
    "litert": ("litert_torch", "ai_edge_quantizer", "flatbuffers"),
    "coreml": ("coremltools", "sklearn"),
    "executorch": ("executorch", "torchao"),
    "coreai": ("coreai_torch", "coreai"),
    "tensorflow": ("tensorflow",),
    "bench": ("google", "segno", "scipy"),
    "conditions": ("mediapipe",),
    "c2pa": ("c2pa",),
    "adopt": ("timm", "torchvision"),
    "cluster": ("ray",),
    "diffusion": ("diffusers", "transformers", "accelerate", "peft"),
    "ledger": ("sqlalchemy", "alembic", "jinja2"),
    "postgresql": ("psycopg",),
    "serve": ("fastapi", "prometheus_client", "sse_starlette", "starlette", "uvicorn"),
}
"""Extra to the import names of what it installs. Of extras that share a package the smallest comes
first.
"""
DEMO = ("arrays", "run", "report", "train", "litert", "coreml", "onnx")
TOGETHER = {
    "run": ("arrays", "run"),
    "bench": ("arrays", "run", "bench"),
    "report": ("arrays", "report"),
    "conditions": ("arrays", "conditions"),
    "ledger": ("arrays", "ledger"),
    "serve": ("arrays", "ledger", "serve"),
    "demo": DEMO,
    "phone": (*DEMO, "bench", "diffusion"),
    "forget": (*DEMO, "diffusion", "ledger"),
}
"""Extras that build on others, and all whose packages they install."""
OWNER = {package: extra for extra, packages in reversed(EXTRAS.items()) for package in packages}
"""The smallest extra that installs a package."""


def extra_of(error: ImportError, asked_by: str | None = None) -> MissingExtraError | None:
    """The same error with the pip command, or None where no extra installs the module, or where its
    package is installed.

    Args:
        error: the error of an import.
        asked_by: the extra of the command that was given: named instead where it installs all that
            is missing.

    Example:
        >>> extra_of(ModuleNotFoundError(name="json.nothing")) is None
        True
    """
    package = (error.name or "").partition(".")[0]
    if package not in OWNER or _installed(package):
        return None
    if asked_by and any(package in EXTRAS[extra] for extra in TOGETHER[asked_by]):
        return MissingExtraError(package, asked_by)
    return MissingExtraError(package, OWNER[package])


def require_modules(modules: Iterable[str], extra: str) -> None:
    """Raises unless the packages of all `modules` are installed.

    Args:
        modules: import names; of ``a.b`` only ``a`` is looked for, because finding ``a.b`` would
            import ``a``.
        extra: the unplug extra that installs them.

    Raises:
        MissingExtraError: names the first that is missing, and the pip command.

    Example:
        >>> require_modules(["json.decoder"], "none")
    """
    for module in modules:
        package = module.partition(".")[0]
        if not _installed(package):
            raise MissingExtraError(package, extra)


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:  # of a finder that answers for what is not there
        return False
