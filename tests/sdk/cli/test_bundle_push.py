"""`unplug bundle push --android` over a stand-in of adb that has a folder for a phone."""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path

import pytest

from .calls import run, said

VECTORS = Path(__file__).parents[2] / "vectors"
ADB = """\
#!/bin/sh
# devices, and of one device: shell (here, with the tools beside), push.
[ "$1" = devices ] && { printf 'List of devices attached\\nphone-1\\tdevice\\n'; exit 0; }
shift 2
verb=$1; shift
case $verb in
  shell) PATH=@TOOLS@:$PATH sh -c "$1";;
  push) [ -f @TOOLS@/full ] && { echo "adb: error: No space left on device" >&2; exit 1; }; cp "$1" "$2";;
esac
"""
AM = """\
#!/bin/sh
echo "$*" >> @TOOLS@/am.log
[ -f @TOOLS@/no-app ] && echo "Error: it is not there"
exit 0
"""


@pytest.fixture(autouse=True)
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where adb is, and in `am.log` what the phone was told; ``phone`` is the app's folder, and
    ``signed.unplug`` and ``release.key.pub`` are to be sent.
    """
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {"adb": ADB, "am": AM}.items():
        (tools / name).write_text(text.replace("@TOOLS@", str(tools)))
        (tools / name).chmod(0o755)
    monkeypatch.setenv("UNPLUG_ADB", str(tools / "adb"))
    monkeypatch.setenv("UNPLUG_APP_FOLDER", str(tmp_path / "phone"))
    case = json.loads((VECTORS / "app" / "bundle.json").read_text())
    for name, raw in case["files"].items():
        path = tmp_path / "signed.unplug" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(raw))
    (tmp_path / "release.key.pub").write_text(case["trust"]["keys"][0])
    return tools


def test_a_bundle_and_its_key_arrive_whole(tools: Path, tmp_path: Path) -> None:
    bundle, key = tmp_path / "signed.unplug", tmp_path / "release.key.pub"
    value = said(f"bundle push {bundle} --android --trust {key}")
    inbox = tmp_path / "phone" / "inbox"
    assert sorted(path.suffix for path in inbox.iterdir()) == [".pub", ".zip"]  # no half of a file
    (archive,), (pushed,) = inbox.glob("*.zip"), inbox.glob("*.pub")
    assert value["device"] == "phone-1" and value["bytes"] == archive.stat().st_size
    assert archive.stem == value["id"][:16]
    with zipfile.ZipFile(archive) as files:
        assert files.read("manifest.json") == (bundle / "manifest.json").read_bytes()
    assert pushed.read_text().split() == key.read_text().split()
    assert (tools / "am.log").read_text() == "start -W -n dev.unplug.demo/.MainActivity\n"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("full", "its disk is full"),
        ("no-app", "the app does not start"),
        ("phone-2", "there is no such device (connected: phone-1)"),
    ],
)
def test_what_goes_wrong_on_the_phone(tools: Path, tmp_path: Path, fault: str, words: str) -> None:
    (tools / fault).touch()
    serial = fault if fault == "phone-2" else ""
    assert words in run(f"bundle push {tmp_path}/signed.unplug --android {serial}", 2).output


def test_a_changed_bundle_is_not_sent(tmp_path: Path) -> None:
    (tmp_path / "signed.unplug" / "README.md").write_text("another")
    run(f"bundle push {tmp_path}/signed.unplug --android", 1)
    assert not (tmp_path / "phone").exists()
