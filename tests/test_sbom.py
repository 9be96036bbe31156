"""The bill of materials: every requirement that is installed is in it, above its floor, and its graph hangs together."""

from __future__ import annotations

from benchmarks.sbom import DISTRIBUTION, bill, closure, normalized, wanted


def test_what_is_installed_is_listed_above_its_floor() -> None:
    asked = wanted("all")
    found, needs = closure(asked)
    assert {"numpy", "pillow", "pydantic", "torch"} <= found.keys()
    for item in asked:
        if normalized(item.name) in found:
            assert item.specifier.contains(found[normalized(item.name)].version, prereleases=True), item
    made = bill(found, needs)
    assert made["bomFormat"] == "CycloneDX" and made["metadata"]["component"]["name"] == DISTRIBUTION
    refs = {part["bom-ref"] for part in made["components"]} | {made["metadata"]["component"]["bom-ref"]}
    assert len(refs) == len(found) + 1
    assert {part["ref"] for part in made["dependencies"]} == refs
    assert {name for part in made["dependencies"] for name in part["dependsOn"]} <= refs
    assert made["serialNumber"] == bill(found, needs)["serialNumber"]
