"""Google Play, "Play for On-device AI": a Gradle module of the plugin ``com.android.ai-pack``.

The module's folder has the pack's name and goes into the app's project next to the app
(``include(":NAME")`` in settings.gradle.kts, ``assetPacks += ":NAME"`` in the app). The plugin
writes a manifest of its own; the one here is for builds by bundletool without Gradle.

Reference: Android developers, Play for On-device AI; the tests of the Android Gradle plugin
    (AiPackTest); bundletool 1.18.1.
"""

from __future__ import annotations

from pathlib import Path

from .shipment import Shipment, When

WHEN: dict[When, str] = {
    "at-install": "install-time",
    "after-install": "fast-follow",
    "on-demand": "on-demand",
}
GRADLE = """plugins {{
    id("com.android.ai-pack")
}}

aiPack {{
    packName.set("{name}")
    dynamicDelivery {{
        deliveryType.set("{when}")
    }}
}}
"""
MANIFEST_XML = """<?xml version="1.0" encoding="utf-8"?>
<manifest xmlns:dist="http://schemas.android.com/apk/distribution" split="{name}">
    <dist:module dist:type="ai-pack">
        <dist:delivery>
            <dist:{when} />
        </dist:delivery>
        <dist:fusing dist:include="true" />
    </dist:module>
</manifest>
"""


def write_play(shipment: Shipment, folder: Path) -> None:
    """The module: its build file, its manifest, and the bundle under ``assets/NAME.unplug``."""
    name, when = shipment.identifier(), WHEN[shipment.delivery.when]
    module = folder / name
    shipment.copy(module / "src" / "main" / "assets" / f"{name}.unplug")
    (module / "build.gradle.kts").write_text(GRADLE.format(name=name, when=when), encoding="utf-8")
    (module / "src" / "main" / "AndroidManifest.xml").write_text(
        MANIFEST_XML.format(name=name, when=when), encoding="utf-8"
    )
