"""What happens inside an artifact: readers of its intermediate tensors; third parties add theirs to ``unplug.tracers``."""

from unplug.core import Registry

TRACERS = Registry(
    "tracer",
    {
        "litert": "unplug.export.layers.litert:open_tracer",
        "coreml": "unplug.export.layers.coreml:open_tracer",
        "onnx": "unplug.export.layers.onnx:open_tracer",
    },
    group="unplug.tracers",
)
