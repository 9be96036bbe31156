"""Runtimes by name; third parties add theirs through the entry-point group ``unplug.runtimes``."""

from unplug.core import Registry

from .base import Runtime

RUNTIMES: Registry[Runtime] = Registry(
    "runtime",
    {
        "litert": "unplug.export.runtime.litert:RUNTIME",
        "coreml": "unplug.export.runtime.coreml:RUNTIME",
        "torch": "unplug.export.runtime.torch:RUNTIME",
        "tensorflow": "unplug.export.runtime.litert:TENSORFLOW",
        "litert-web": "unplug.export.runtime.web.runtime:LITERT",
        "onnx-web": "unplug.export.runtime.web.runtime:ONNX",
        "onnx": "unplug.export.runtime.onnx:RUNTIME",
        "executorch": "unplug.export.runtime.executorch:RUNTIME",
        "coreai": "unplug.export.runtime.coreai:RUNTIME",
        "mil": "unplug.export.runtime.mil:RUNTIME",
    },
    group="unplug.runtimes",
)
