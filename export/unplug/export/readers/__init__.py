"""Readers of the weights that an artifact stores; third parties add theirs through the entry-point group ``unplug.readers``."""

from unplug.core import Registry

READERS = Registry(
    "weight reader",
    {
        "litert": "unplug.export.readers.litert:read",
        "onnx": "unplug.export.readers.onnx:read",
        "coreml": "unplug.export.readers.coreml:read",
    },
    group="unplug.readers",
)
