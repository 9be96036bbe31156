"""docs/story.md, run as it stands: every block in one empty folder, every line that it shows, and
what each step comes to.
"""

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
from tests.mobile_bench.web.test_signed import BUNDLES, judged_in_typescript

from unplug.core import CheckFailed
from unplug.mobile_bench.web import build
from unplug.sdk.cli import main
from unplug.trust.bundle import (
    Publication,
    Refused,
    Trust,
    bundle_id,
    open_source,
    pack_bundle,
    read_manifest,
    read_trust,
    verify,
)
from unplug.trust.certificates import check_certificate
from unplug.trust.ledger import check_ledger, open_ledger

pytestmark = pytest.mark.long

PAGE = Path(__file__).parents[1] / "docs" / "story.md"
BLOCK = re.compile(
    r"^(?:<!-- (node) -->\n)?```sh\n(.*?)```\n(?:```text\n(.*?)```\n)?", re.DOTALL | re.MULTILINE
)
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

    @property
    def office(self) -> Path:
        """The project."""
        return self.folder / "office"

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
    """Commands of the page and the lines that it shows, those of Node's blocks (`node`) or of the
    others.
    """
    found = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    return [
        (block.splitlines(), shown.splitlines()) for mark, block, shown in found if mark == kind
    ]


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
        if words[1] == "../away":
            go_away(patch)
    elif words[0] == "unplug":
        done = CliRunner().invoke(main, words[1:])
        assert done.exit_code == int(ended[1] if ended else 0), f"{line}\n{done.output}"
        return done.output
    else:
        assert words[0] in {"mkdir", "cp", "rm", "sed", "sha256sum"}, line
        return subprocess.run(
            ["sh", "-c", line], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
    return ""


def tell(kind: str, folder: Path, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Runs the blocks of a kind; each line that the page shows is among those printed, in its
    place.
    """
    said: dict[str, str] = {}
    for lines, shown in blocks(kind):
        printed: list[str] = []
        for line in lines:
            assert line not in said, f"it stands there twice: {line}"
            said[line] = run(line, patch)
            printed += said[line].replace(f"{folder}/", "/srv/story/").splitlines()
        rest = iter(map(same, printed))
        for line in shown:
            assert line == "..." or same(line) in rest, f"not printed (here): {line}\n" + "\n".join(
                printed
            )
    return said


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Told]:
    folder = tmp_path_factory.mktemp("story").resolve()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("UNPLUG_LEDGER", "UNPLUG_KEY", "UNPLUG_LEDGER_KEY"):
            patch.delenv(name, raising=False)
        said = tell("", folder, patch)
    yield Told(folder, said)


def test_the_ledger_counted_days_and_one_release_answers_both(told: Told) -> None:
    ledger = open_ledger(str(told.office / ".unplug" / "ledger.db"))
    assert check_ledger(ledger, ledger.identity()[1])[1] == ()
    requests = ledger.requests()
    assert {name: item.state for name, item in requests.items()} == dict.fromkeys(
        ("TICKET-1", "TICKET-17", "TICKET-18"), "answered"
    )
    (released,) = [
        entry
        for entry in ledger.entries()
        if entry.kind == "release" and "TICKET-17" in entry.requests
    ]
    assert set(released.requests) == {"TICKET-17", "TICKET-18"}
    request = requests["TICKET-17"]
    months = (
        12 * (request.due.year - request.received.year) + request.due.month - request.received.month
    )
    assert months == 1 and request.days_left(request.due + timedelta(days=1)) == -1
    counted = told.of("unplug ledger due")
    today = date.fromisoformat(counted.split()[-1])
    assert re.findall(r"\bin (\d+) days", counted) == [str((request.due - today).days)] * 2
    manifest = read_manifest(told.office / "releases" / "face-age-2.unplug")
    assert manifest.publication is not None and manifest.publication.requests == (
        "TICKET-17",
        "TICKET-18",
    )
    assert (
        manifest.lineage.forget_samples == 4
        and bundle_id(told.office / "releases" / "face-age-2.unplug") in released.facts.values()
    )
    assert all(gate.passed and gate.override is None for gate in manifest.gates)
    assert {gate.name: gate.value for gate in manifest.gates}["equality"] == 0.0
    sums = {line.split()[0] for line in told.of("sha256sum").splitlines()}
    assert sums == {manifest.lineage.checkpoint_sha256}, "the weights that forgot are the refit's"


def test_a_phone_that_was_given_the_new_bundle_refuses_the_old_one(told: Told) -> None:
    trust, phone = read_trust(told.folder / "phone" / "release.key.pub"), told.folder / "phone"
    with open_source(phone / "face-age-2.unplug") as source:
        after = trust.after(verify(source, trust).publication)
    with open_source(phone / "face-age-1.unplug") as source:
        assert verify(source, trust).publication.release == 1, (
            "a phone that was not goes on with it"
        )
        with pytest.raises(Refused) as refused:
            verify(source, after)
    assert refused.value.verdict == "superseded"


def test_the_page_is_made_and_its_verifier_refuses_the_old_bundle(
    told: Told, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(build.PAGE_VARIABLE, str(built.page))
    monkeypatch.chdir(told.office)
    tell("node", told.folder, monkeypatch)
    phone, cases = told.folder / "phone", tmp_path / "bundles"
    shutil.copytree(BUNDLES, cases, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    known = read_trust(phone / "release.key.pub")
    after = known.after(stated(phone / "face-age-2.unplug"))
    for name, trust, verdict in (
        ("face-age-1", known, "valid"),
        ("face-age-2", after, "valid"),
        ("face-age-1", after, "superseded"),
    ):
        case = packed(phone / f"{name}.unplug", tmp_path / f"{name}.zip", trust, verdict)
        (cases / f"story-{name}-{verdict}.json").write_text(json.dumps(case))
    assert judged_in_typescript(built, cases) == judged_in_typescript(built, BUNDLES) + 3


def stated(bundle: Path) -> Publication:
    publication = read_manifest(bundle).publication
    assert publication is not None
    return publication


def packed(bundle: Path, out: Path, trust: Trust, verdict: str) -> dict[str, Any]:
    """A bundle in the form of the corpus, with what a phone knows before it opens it."""
    pack_bundle(bundle, out)
    known = {
        "keys": [key.pem for key in trust.keys],
        "name": trust.name,
        "minimum_release": trust.minimum_release,
        "revoked": sorted(trust.revoked),
        "superseded": sorted(trust.superseded),
    }
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "what": f"the story's {bundle.name}",
        "now": now,
        "verdict": verdict,
        "trust": known,
        "zip": coded(out),
    }


def coded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def test_the_certificate_names_nobody_and_verifies_with_what_lies_there_alone(
    told: Told, tmp_path: Path
) -> None:
    away = tmp_path / "away"
    shutil.copytree(told.folder / "away", away)
    file, bundle, (key,) = (
        away / "certificate.intoto.jsonl",
        away / "face-age-2.unplug",
        read_trust(away / "release.key.pub").keys,
    )
    assert sorted(path.name for path in away.iterdir()) == [
        "certificate.intoto.jsonl",
        "face-age-2.unplug",
        "release.key.pub",
    ]
    checked = check_certificate(file, key, bundle, request="TICKET-17")
    assert checked.problems == () and checked.certificate.evidence.gates
    assert len(checked.certificate.absent) == 2
    places = {line.place: line.outcome for line in checked.certificate.places}
    assert (places["raw data"], places["caches"], places["backups"]) == (
        "deleted",
        "none found",
        "kept",
    )
    texts = [
        path.read_bytes()
        for path in (*bundle.rglob("*"), file, *(told.office / "certificate-17").iterdir())
        if path.is_file()
    ]
    payloads = [
        base64.b64decode(json.loads(line)["payload"]) for line in file.read_text().splitlines()
    ]
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
