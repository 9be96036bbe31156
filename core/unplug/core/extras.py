"""Optional packages: looked for without importing them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from .errors import MissingExtraError

EXTRAS = {
    "train": ("torch", "cv2", "huggingface_hub", "safetensors"),
    "run": ("ai_edge_litert", "onnxruntime"),
    "onnx": ("onnx", "onnxscript"),
    "litert": ("litert_torch", "ai_edge_quantizer", "flatbuffers"),
    "coreml": ("coremltools", "sklearn"),
    "executorch": ("executorch", "torchao"),
    "coreai": ("coreai_torch", "coreai"),
    "tensorflow": ("tensorflow",),
    "bench": ("google", "segno"),
    "conditions": ("mediapipe",),
    "adopt": ("timm", "torchvision"),
    "cluster": ("ray",),
    "tune": ("optuna",),
    "diffusion": ("diffusers", "transformers", "accelerate", "peft"),
    "ledger": ("sqlalchemy", "alembic"),
    "postgresql": ("psycopg",),
    "certificate": ("reportlab",),
    "serve": ("fastapi", "prometheus_client", "sse_starlette", "starlette", "uvicorn"),
}
"""Extra to the import names of what it installs; a package of several extras stands by the smallest."""
OWNER = {package: extra for extra, packages in EXTRAS.items() for package in packages}


def extra_of(error: ImportError) -> MissingExtraError | None:
    """The same error with the pip command, or None where no extra installs the module, or where its package is installed.

    Example:
        >>> extra_of(ModuleNotFoundError(name="json.nothing")) is None
        True
    """
    package = (error.name or "").partition(".")[0]
    if package not in OWNER or _installed(package):
        return None
    return MissingExtraError(package, OWNER[package])


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
        if not _installed(package):
            raise MissingExtraError(package, extra)


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:  # of a finder that answers for what is not there
        return False
