"""Export targets by name; third parties add theirs through the entry-point group
``unplug.targets``.
"""

from unplug.core import Registry

from .base import Target

TARGETS: Registry[Target] = Registry(
    "target",
    {
        "litert": "unplug.export.targets.litert:TARGET",
        "coreml": "unplug.export.targets.coreml:TARGET",
        "onnx": "unplug.export.targets.onnx:TARGET",
        "executorch": "unplug.export.targets.executorch:TARGET",
        "coreai": "unplug.export.targets.coreai:TARGET",
    },
    group="unplug.targets",
)
