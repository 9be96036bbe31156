"""`unplug bundle push --android` over a stand-in of adb that has a folder for a phone."""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from unplug.sdk.cli import main

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


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The app's folder on the phone; what `am` was told stands in `am.log` beside."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in {
        "adb": ADB.replace("@TOOLS@", str(tools)),
        "am": (
            f'#!/bin/sh\necho "$*" >> {tools}/am.log\n[ -f {tools}/no-app ] && echo "Error: it is '
            'not there"\nexit 0\n'
        ),
    }.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("UNPLUG_ADB", str(tools / "adb"))
    monkeypatch.setenv("UNPLUG_APP_FOLDER", str(tmp_path / "phone"))
    return tmp_path / "phone"


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path]:
    """A signed bundle as a folder, and its public key."""
    case = json.loads((VECTORS / "app" / "bundle.json").read_text())
    for name, raw in case["files"].items():
        path = tmp_path / "signed.unplug" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(raw))
    key = tmp_path / "release.key.pub"
    key.write_text(case["trust"]["keys"][0])
    return tmp_path / "signed.unplug", key


def test_a_bundle_and_its_key_arrive_whole(phone: Path, signed: tuple[Path, Path]) -> None:
    bundle, key = signed
    done = CliRunner().invoke(
        main, ["bundle", "push", str(bundle), "--android", "--trust", str(key), "--json"]
    )
    assert done.exit_code == 0, done.output
    value = json.loads(done.output)
    names = sorted(path.name for path in (phone / "inbox").iterdir())
    assert [name.split(".")[-1] for name in names] in (["pub", "zip"], ["zip", "pub"]), (
        "no half of a file is left"
    )
    (archive,) = (phone / "inbox").glob("*.zip")
    assert (
        value["device"] == "phone-1"
        and value["bytes"] == archive.stat().st_size
        and archive.stem == value["id"][:16]
    )
    with zipfile.ZipFile(archive) as found:
        assert found.read("manifest.json") == (bundle / "manifest.json").read_bytes()
    (pushed,) = (phone / "inbox").glob("*.pub")
    assert pushed.read_text().split() == key.read_text().split()
    assert (
        phone.parent / "tools" / "am.log"
    ).read_text() == "start -W -n dev.unplug.demo/.MainActivity\n"


@pytest.mark.parametrize(
    ("fault", "words"), [("full", "its disk is full"), ("no-app", "the app does not start")]
)
def test_what_goes_wrong_on_the_phone(
    phone: Path, signed: tuple[Path, Path], fault: str, words: str
) -> None:
    (phone.parent / "tools" / fault).touch()
    done = CliRunner().invoke(main, ["bundle", "push", str(signed[0]), "--android"])
    assert done.exit_code == 2 and words in done.output


def test_another_phone_than_is_there(phone: Path, signed: tuple[Path, Path]) -> None:
    done = CliRunner().invoke(main, ["bundle", "push", str(signed[0]), "--android", "phone-2"])
    assert done.exit_code == 2 and "there is no such device (connected: phone-1)" in done.output


def test_a_changed_bundle_is_not_sent(phone: Path, signed: tuple[Path, Path]) -> None:
    bundle, _ = signed
    (bundle / "README.md").write_text("another")
    done = CliRunner().invoke(main, ["bundle", "push", str(bundle), "--android"])
    assert done.exit_code != 0 and not phone.exists()
