"""TensorFlow's own interpreter of LiteRT files: the older runtime, which many apps still embed."""

from __future__ import annotations

from .litert import LiteRT

RUNTIME = LiteRT(
    name="tensorflow",
    modules=("tensorflow.lite.python.interpreter",),
    package="tensorflow",
    extra="tensorflow",
    delegates=("xnnpack", "none"),
)
