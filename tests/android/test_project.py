"""The Android project as far as it holds together without Gradle: versions, names, permissions, and
the app's own report.
"""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from tests.vectors.app import bench

from unplug.mobile_bench.apps.android import ACTIVITY, PACKAGE, _AndroidApp
from unplug.mobile_bench.received import check_received

ROOT = Path(__file__).parents[2] / "android_demo"
POM = "{http://maven.apache.org/POM/4.0.0}"
ANDROID = "{http://schemas.android.com/apk/res/android}"


def catalogue() -> dict[str, Any]:
    return tomllib.loads((ROOT / "gradle/libs.versions.toml").read_text(encoding="utf-8"))


def properties(module: str) -> dict[str, str]:
    found = ElementTree.parse(ROOT / module / "pom.xml").getroot().find(f"{POM}properties")
    assert found is not None
    return {item.tag.removeprefix(POM): item.text or "" for item in found}


def test_gradle_names_what_the_catalogue_has_and_nothing_is_left_over() -> None:
    known = {name: set(catalogue()[name]) for name in ("libraries", "plugins")}
    text = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.rglob("*.gradle.kts"))
    named = set(re.findall(r"\blibs\.([a-z0-9.]+)", text))
    plugins = {name.removeprefix("plugins.") for name in named if name.startswith("plugins.")}
    libraries = {name for name in named if not name.startswith("plugins.")}
    assert plugins == {name.replace("-", ".") for name in known["plugins"]}
    assert libraries == {name.replace("-", ".") for name in known["libraries"]}


def test_every_version_is_used_and_each_entry_has_one() -> None:
    value = catalogue()
    used = {
        item["version"]["ref"] for kind in ("libraries", "plugins") for item in value[kind].values()
    }
    assert used == set(value["versions"])


@pytest.mark.parametrize("module", ["core", "app"])
def test_maven_checks_the_versions_that_gradle_builds(module: str) -> None:
    versions, own = catalogue()["versions"], properties(module)
    shared = {name: own[f"{name}.version"] for name in versions if f"{name}.version" in own}
    assert shared == {name: versions[name] for name in shared}
    assert {"kotlin", "onnxruntime"} <= set(shared)


def test_what_google_play_asks_for() -> None:
    """Target 36, and libraries that are fit for pages of 16 KB: ONNX Runtime's are from 1.27 on."""
    build, check = (
        (ROOT / "app/build.gradle.kts").read_text(encoding="utf-8"),
        (ROOT / "check").read_text(encoding="utf-8"),
    )
    assert "targetSdk = 36\n" in build and "--target-sdk-version 36 " in check
    assert tuple(map(int, catalogue()["versions"]["onnxruntime"].split("."))) >= (1, 27)


def test_only_the_interpreter_is_in_what_gradle_builds() -> None:
    """What was never run on a phone stays out of the app: `CompiledLiteRt` is compiled by Maven
    alone, against stand-ins.
    """
    main = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "app/src/main").rglob("*.kt")
    )
    assert (
        "com.google.ai.edge.litert" not in main
        and "CompiledLiteRt" not in main
        and "InterpreterModel(" in main
    )
    assert "src/compiled" not in (ROOT / "app/build.gradle.kts").read_text(encoding="utf-8")


def test_the_manifest_asks_for_nothing_and_has_the_harness_s_activity() -> None:
    manifest = ElementTree.parse(ROOT / "app/src/main/AndroidManifest.xml").getroot()
    assert [item.tag for item in manifest if item.tag.startswith("uses-permission")] == []
    build = (ROOT / "app/build.gradle.kts").read_text(encoding="utf-8")
    assert f'namespace = "{PACKAGE}"' in build and f'applicationId = "{PACKAGE}"' in build
    activities = {item.get(f"{ANDROID}name"): item for item in manifest.iter("activity")}
    driven = activities[ACTIVITY.removeprefix(f"{PACKAGE}/")]
    assert (
        driven.get(f"{ANDROID}exported") == "true"
        and driven.get(f"{ANDROID}permission") == "android.permission.DUMP"
    )
    source = (ROOT / "app/src/main/kotlin/dev/unplug/demo/engine/Engines.kt").read_text(
        encoding="utf-8"
    )
    ways = re.findall(r'[A-Z_]+\("[a-z]+", "([a-z]+)", "([a-z-]+)", ', source)
    assert {(runtime, delegate) for delegate, runtime in ways} == {
        (runtime, delegate)
        for runtime, delegates in _AndroidApp.runs.by_runtime.items()
        for delegate in delegates
    }


def test_the_harness_takes_the_report_that_the_app_wrote(tmp_path: Path) -> None:
    """`android_demo/check` leaves it: the app's own activity has run the plan of the vectors with
    ONNX Runtime.
    """
    report = ROOT / "app/target/report.json"
    if not report.is_file():
        pytest.skip("android_demo/check has not run here")
    pytest.importorskip("onnxruntime")
    rows = check_received(report.read_bytes(), bench.jobs(tmp_path), bench.PLAN)
    assert [(row.status, row.delegate_asked, row.valid) for row in rows] == [
        ("ok", "cpu", True),
        ("failed", "gpu", False),
        ("not_run", "npu", False),
    ]
    assert [len(repeat.latencies_ms) for repeat in rows[0].repeats] == [12, 12, 12]
