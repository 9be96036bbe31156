"""Apple's managed Background Assets: the manifest and the files that ``xcrun ba-package`` makes an
archive of.

Paths in the manifest count from where the tool is run: ``cd OUT && xcrun ba-package Manifest.json
-o NAME.aar``.

Reference: Apple developer documentation, Creating managed asset packs, and the template that
    ``ba-package`` writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .shipment import Shipment, When

EVENTS = {"installationEventTypes": ["firstInstallation", "subsequentUpdate"]}
WHEN: dict[When, dict[str, Any]] = {
    "at-install": {"essential": EVENTS},
    "after-install": {"prefetch": EVENTS},
    "on-demand": {"onDemand": {}},
}


def write_ios(shipment: Shipment, folder: Path) -> None:
    """``Manifest.json`` and the bundle next to it."""
    directory = f"{shipment.name}.unplug"
    shipment.copy(folder / directory)
    manifest = {
        "assetPackID": shipment.name,
        "downloadPolicy": WHEN[shipment.delivery.when],
        "fileSelectors": [{"directory": directory}],
        "platforms": ["iOS"],
    }
    (folder / "Manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
