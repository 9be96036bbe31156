"""docs/story.md, run as it stands: every block in one empty folder, every line that it shows, and what each step comes to."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.mobile_bench.web.conftest import Built
from tests.mobile_bench.web.conftest import built as built  # a fixture
from tests.mobile_bench.web.test_signed import VECTORS, judged_in_typescript

from unplug.core import CheckFailed
from unplug.mobile_bench.web import build
from unplug.sdk.bundle import bundle_id, pack_bundle, read_manifest, read_trust
from unplug.sdk.certificates import check_certificate
from unplug.sdk.cli import main
from unplug.sdk.ledger import check_ledger, open_ledger
from unplug.sdk.updates import NotCurrent, check_updates, folder_reader, verify_current

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[1] / "docs" / "story.md"
BLOCK = re.compile(r"^(?:<!-- (node) -->\n)?```sh\n(.*?)```\n(?:```text\n(.*?)```\n)?", re.DOTALL | re.MULTILINE)
EXIT = re.compile(r"\s# exit (\d)$")
CHANGING = (
    (re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\dZ)?"), "DATE"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"), "HASH"),
    (re.compile(r"\bin \d+ days"), "in N days"),
    (re.compile(r"\d+ MB"), "N MB"),
    (re.compile(r"\d[\d,]*\.\d+|\d+,\d{3}"), "NUMBER"),
    (re.compile(r"\(\d+ s on .*\)"), "(TIME)"),
    (re.compile(r"example\.com[/+]\S+"), "NAME"),
    (re.compile(r"\s+"), " "),
)
"""What differs from run to run, and what stands for it where lines are compared."""


@dataclass(frozen=True)
class Told:
    """The story, once it was run."""

    folder: Path
    said: dict[str, str]

    def of(self, beginning: str) -> str:
        """What the one command printed that begins so."""
        (found,) = [text for line, text in self.said.items() if line.startswith(beginning)]
        return found


def same(line: str) -> str:
    """A line without what differs from run to run."""
    for pattern, word in CHANGING:
        line = pattern.sub(word, line)
    return line.strip()


def blocks(kind: str) -> list[tuple[list[str], list[str]]]:
    """Commands of the page and the lines that it shows, those of Node's blocks (`node`) or of the others."""
    found = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    return [(block.splitlines(), shown.splitlines()) for mark, block, shown in found if mark == kind]


def go_away(patch: pytest.MonkeyPatch) -> None:
    """From here on this is another machine: nothing of the first one's settings, and no network."""

    def unreachable(*_: object) -> None:
        raise OSError("there is no network")

    for name in [name for name in os.environ if name.startswith("UNPLUG_")]:
        patch.delenv(name)
    patch.setattr(socket.socket, "connect", unreachable)
    patch.setattr(socket, "getaddrinfo", unreachable)


def run(line: str, patch: pytest.MonkeyPatch) -> str:
    """One line of the page, which must end as it says; what it printed."""
    ended = EXIT.search(line)
    words = shlex.split(line, comments=True)
    if words[0] == "export":
        for name, _, value in (word.partition("=") for word in words[1:]):
            patch.setenv(name, value.replace("$PWD", str(Path.cwd())))
    elif words[0] == "cd":
        patch.chdir(words[1])
        go_away(patch)
    elif words[0] == "unplug":
        done = CliRunner().invoke(main, words[1:])
        assert done.exit_code == int(ended[1] if ended else 0), f"{line}\n{done.output}"
        return done.output
    else:
        assert words[0] in {"mkdir", "cp", "rm", "sed"}, line
        subprocess.run(["sh", "-c", line], check=True)
    return ""


def tell(kind: str, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Runs the blocks of a kind; each line that the page shows is among those printed, in its place."""
    said: dict[str, str] = {}
    for lines, shown in blocks(kind):
        printed: list[str] = []
        for line in lines:
            assert line not in said, f"it stands there twice: {line}"
            said[line] = run(line, patch)
            printed += said[line].replace(f"{folder}/", "/srv/story/").splitlines()
        rest = iter(map(same, printed))
        for line in shown:
            assert line == "..." or same(line) in rest, f"not printed (here): {line}\n" + "\n".join(printed)
    return said


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("story").resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        said = tell("", folder, patch)
    yield Told(folder, said)


def test_the_ledger_counted_days_and_one_release_answers_both(told: Told) -> None:
    ledger = open_ledger(str(told.folder / "ledger.db"))
    assert check_ledger(ledger, ledger.identity()[1])[1] == ()
    requests = ledger.requests()
    assert {name: item.state for name, item in requests.items()} == dict.fromkeys(
        ("TICKET-1", "TICKET-17", "TICKET-18"), "answered"
    )
    (released,) = [entry for entry in ledger.entries() if entry.kind == "release" and "TICKET-17" in entry.requests]
    assert set(released.requests) == {"TICKET-17", "TICKET-18"}
    request = requests["TICKET-17"]
    months = 12 * (request.due.year - request.received.year) + request.due.month - request.received.month
    assert months == 1 and request.days_left(request.due + timedelta(days=1)) == -1
    counted = told.of("unplug ledger due")
    today = date.fromisoformat(counted.split()[-1])
    assert re.findall(r"\bin (\d+) days", counted) == [str((request.due - today).days)] * 2
    manifest = read_manifest(told.folder / "face-age-2.unplug")
    assert manifest.publication is not None and manifest.publication.requests == ("TICKET-17", "TICKET-18")
    assert manifest.lineage.forget_samples == 4 and bundle_id(told.folder / "face-age-2.unplug") in released.facts.values()
    assert all(gate.passed and gate.override is None for gate in manifest.gates)
    assert {gate.name: gate.value for gate in manifest.gates}["equality"] == 0.0


def test_pythons_reader_refuses_the_old_bundle(told: Told) -> None:
    root, trust = told.folder / "phone" / "1.root.json", read_trust(told.folder / "phone" / "release.key.pub")
    updates = check_updates(root.read_bytes(), folder_reader(told.folder / "updates" / "metadata"))
    with pytest.raises(NotCurrent) as refused:
        verify_current(told.folder / "phone" / "face-age-1.unplug", trust, updates)
    assert refused.value.verdict == "superseded"
    verified, standing = verify_current(told.folder / "face-age-2.unplug", trust, updates)
    assert (standing.release, standing.current, verified.publication.name) == (2, 2, "face-age")


def test_the_page_is_made_and_its_reader_refuses_the_old_bundle(
    told: Told, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(build.PAGE_VARIABLE, str(built.page))
    monkeypatch.chdir(told.folder)
    tell("node", told.folder, monkeypatch)
    metadata = {path.name: path.read_bytes() for path in (told.folder / "updates" / "metadata").iterdir()}
    assert {path.name: path.read_bytes() for path in (told.folder / "site" / "updates" / "metadata").iterdir()} == metadata
    for corpus in ("bundles", "updates"):
        shutil.copytree(VECTORS / corpus, tmp_path / corpus, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for place, name, verdict in (
        ("phone/face-age-1.unplug", "old", "superseded"),
        ("face-age-2.unplug", "new", "valid"),
    ):
        signed, current = cases(told.folder, told.folder / place, tmp_path / f"{name}.zip", verdict)
        (tmp_path / "bundles" / f"story-{name}.json").write_text(json.dumps(signed))
        (tmp_path / "updates" / f"story-{name}.json").write_text(json.dumps(current))
    for corpus in ("bundles", "updates"):
        before = judged_in_typescript(built, corpus, VECTORS / corpus)
        assert judged_in_typescript(built, corpus, tmp_path / corpus) == before + 2


def cases(folder: Path, bundle: Path, packed: Path, verdict: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A bundle in the form of both corpora: its signature, which holds, and whether it is current."""
    pack_bundle(bundle, packed)
    said, now = read_manifest(bundle).publication, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert said is not None
    trust = {
        "keys": [(folder / "phone" / "release.key.pub").read_text()],
        "name": None,
        "minimum_release": 1,
        "revoked": [],
        "superseded": [],
    }
    files = {path.name: coded(path) for path in (folder / "updates" / "metadata").iterdir()}
    claim = {
        "name": said.name,
        "release": said.release,
        "id": bundle_id(bundle),
        "bytes": (bundle / "manifest.json").stat().st_size,
    }
    signed = {"what": f"the story's {bundle.name}", "now": now, "verdict": "valid", "trust": trust, "zip": coded(packed)}
    current = {
        "what": signed["what"], "now": now, "verdict": verdict, "root": coded(folder / "phone" / "1.root.json"), "files": files,
        "pad": {}, "seen": None, "bundle": claim,
    }  # fmt: skip
    return signed, current


def coded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_the_certificate_names_nobody_and_verifies_with_what_lies_there_alone(told: Told, tmp_path: Path) -> None:
    away = tmp_path / "away"
    shutil.copytree(told.folder / "away", away)
    file, bundle, (key,) = (
        away / "certificate.intoto.jsonl",
        away / "face-age-2.unplug",
        read_trust(away / "release.key.pub").keys,
    )
    assert sorted(path.name for path in away.iterdir()) == ["certificate.intoto.jsonl", "face-age-2.unplug", "release.key.pub"]
    checked = check_certificate(file, key, bundle, request="TICKET-17")
    assert checked.problems == () and checked.certificate.evidence.gates
    places = {line.place: line.outcome for line in checked.certificate.places}
    assert (places["raw data"], places["caches"], places["backups"]) == ("deleted", "none found", "kept")
    texts = [
        path.read_bytes() for path in (*bundle.rglob("*"), file, *(told.folder / "certificate-17").iterdir()) if path.is_file()
    ]
    payloads = [base64.b64decode(json.loads(line)["payload"]) for line in file.read_text().splitlines()]
    assert not [raw for raw in (*texts, *payloads) if re.search(rb"person-(?:2|14)\b", raw)]
    card = bundle / "README.md"
    card.write_bytes(card.read_bytes() + b" ")
    try:
        harmed = check_certificate(file, key, bundle, request="TICKET-17").problems
    except CheckFailed as failed:
        harmed = (str(failed),)
    assert any("README.md was changed" in line for line in harmed), harmed


def test_all_of_the_page_was_run() -> None:
    """A block that the pattern does not find would never be run."""
    text = PAGE.read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) == text.count("```sh\n") and text.count("```text\n") == sum(
        bool(shown) for _, shown in blocks("") + blocks("node")
    )
