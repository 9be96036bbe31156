"""What the iOS app's project says, held to its sources: no network, privacy manifest, camera's
text, types, its check in CI.
"""

from __future__ import annotations

import plistlib
import re
from pathlib import Path

import pytest

from unplug.mobile_bench.apps.ios import BUNDLE, FAILED, FOLDER, PARTIAL

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "ios_demo"
APP = DEMO / "UnplugApp"
SOURCES = {path.name: path.read_text(encoding="utf-8") for path in APP.glob("Sources/*.swift")}
CORE = {
    path.name: path.read_text(encoding="utf-8")
    for path in (DEMO / "UnplugCore/Sources").rglob("*.swift")
}
STAND_INS = {
    path.stem: path.read_text(encoding="utf-8") for path in DEMO.glob("StandIns/*.swiftinterface")
}
OWN = {"UnplugCore", "UnplugCoreML"}
ON_LINUX = {"Foundation", "Observation"}
REASONS = {
    "NSPrivacyAccessedAPICategoryUserDefaults": ("CA92.1", r"\bUserDefaults\b"),
    "NSPrivacyAccessedAPICategorySystemBootTime": ("35F9.1", r"\buptimeNanoseconds\b"),
    "NSPrivacyAccessedAPICategoryFileTimestamp": ("C617.1", r"\battributesOfItem\b"),
}
"""Apple's reasons for what the app calls, and the calls."""


def imports(text: str) -> set[str]:
    return set(re.findall(r"^\s*(?:@testable )?import (\w+)", text, re.MULTILINE))


def test_no_network() -> None:
    text = "\n".join((*SOURCES.values(), *CORE.values()))
    for word in (
        "URLSession",
        "URLRequest",
        "NWConnection",
        "CFNetwork",
        "WKWebView",
        "getaddrinfo",
    ):
        assert word not in text, word
    assert not {"Network", "WebKit", "CFNetwork"} & imports(text)


def test_the_core_needs_nothing_of_apples() -> None:
    for name in (DEMO / "UnplugCore/Sources/UnplugCore").rglob("*.swift"):
        bare = re.sub(
            r"#if canImport\(CryptoKit\).*?#endif",
            "",
            name.read_text(encoding="utf-8"),
            flags=re.DOTALL,
        )
        assert imports(bare) <= ON_LINUX, name


def test_the_privacy_manifest_names_what_is_called() -> None:
    said = plistlib.loads((APP / "PrivacyInfo.xcprivacy").read_bytes())
    assert (
        said["NSPrivacyTracking"] is False
        and said["NSPrivacyTrackingDomains"] == said["NSPrivacyCollectedDataTypes"] == []
    )
    found = {
        item["NSPrivacyAccessedAPIType"]: item["NSPrivacyAccessedAPITypeReasons"]
        for item in said["NSPrivacyAccessedAPITypes"]
    }
    text = "\n".join((*SOURCES.values(), *CORE.values()))
    assert found == {
        kind: [reason] for kind, (reason, call) in REASONS.items() if re.search(call, text)
    }
    assert len(found) == len(REASONS)


def test_the_project_says_what_the_app_needs() -> None:
    yaml = pytest.importorskip("yaml")
    project = yaml.safe_load((APP / "project.yml").read_text(encoding="utf-8"))
    app, tests = (project["targets"][name] for name in ("UnplugApp", "UnplugAppTests"))
    assert app["settings"]["PRODUCT_BUNDLE_IDENTIFIER"] == BUNDLE
    assert all((APP / source).exists() for target in (app, tests) for source in target["sources"])
    assert (APP / project["packages"]["UnplugCore"]["path"] / "Package.swift").is_file()
    info = app["info"]["properties"]
    assert "never leave this device" in info["NSCameraUsageDescription"] and not any(
        "Transport" in key for key in info
    )
    kinds = {kind for item in info["CFBundleDocumentTypes"] for kind in item["LSItemContentTypes"]}
    assert {"public.zip-archive", "public.folder", "public.json", "dev.unplug.public-key"} == kinds
    (declared,) = info["UTImportedTypeDeclarations"]
    assert declared["UTTypeTagSpecification"]["public.filename-extension"] == ["pub", "pem"]
    assert '["pub", "pem", "json"]' in SOURCES["UnplugApp.swift"]
    assert (
        len(info["UISupportedInterfaceOrientations"])
        == len(info["UISupportedInterfaceOrientations~ipad"])
        == 4
    )


def test_every_apple_module_has_a_stand_in_that_does_nothing() -> None:
    texts = [
        *SOURCES.values(),
        *(path.read_text(encoding="utf-8") for path in APP.glob("Tests/*.swift")),
    ]
    needed = (
        {name for text in texts for name in imports(text)}
        - OWN
        - ON_LINUX
        - {"UnplugApp", "XCTest"}
    )
    assert needed <= STAND_INS.keys()
    for name, text in STAND_INS.items():
        assert f"-module-name {name}\n" in text and "// A stand-in: " in text, name
        assert not re.search(r"\b(return|let \w+ =|var \w+ =)\s", text), name


def test_letters_grow_and_voices_read() -> None:
    text = "\n".join(SOURCES.values())
    assert not re.search(r"\.system\(size:|\.fixedSize\(|\.minimumScaleFactor", text), (
        "fonts follow the reader's size"
    )
    for path in ("AgeView.swift", "BenchView.swift", "BundleView.swift", "DrawView.swift"):
        assert re.search(r"\.accessibility(Label|Value|Hint|Element)\(", SOURCES[path]), path
    assert all("systemName" not in line or "icon" in before for line, before in pairs(text)), (
        "a bare symbol has no words"
    )


def pairs(text: str) -> list[tuple[str, str]]:
    lines = text.splitlines()
    return [(line, "\n".join(lines[max(0, place - 3) : place])) for place, line in enumerate(lines)]


def test_the_harness_and_the_app_mean_the_same_files() -> None:
    bench = CORE["BenchScreen.swift"]
    assert (
        f'partial = "{PARTIAL}"' in bench
        and f'failed = "{FAILED}"' in bench
        and '"report.json"' in bench
    )
    assert (
        FOLDER.startswith("Documents/")
        and f'hasPrefix("{FOLDER.removeprefix("Documents/")}")' in bench
    )


def test_ci_calls_the_check() -> None:
    assert "ios_demo/check" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
