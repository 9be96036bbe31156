"""A page made with --trust: it runs what is signed and not older than it saw, and shows for
everything else why it does not.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from unplug.mobile_bench import Guard, PageTrust, write_site
from unplug.mobile_bench.web import build
from unplug.trust.bundle import Publication, Signer, Signing, load_signer, make_key
from unplug.trust.bundle.signing import write_manifest

from .conftest import Browser, Built, files_in, served, zipped

pytestmark = pytest.mark.nightly

OPEN = "open ?repeats=1&iterations=2&warmup=1"
IN_A_YEAR = "const now = Date.now; Date.now = () => now() + 366 * 864e5;"
"""For the page's clock; the browser's own is left."""
IN_DECEMBER = """const now = Date.now, since = Date.UTC(2026, 11, 1) - now();
Date.now = () => now() + since;"""
"""When the signature of `GENERATOR` was made for."""
GENERATOR = Path(__file__).parents[2] / "vectors" / "app" / "generator"
BASES = {
    "unsigned": "[data-verdict=no-bundle]",
    "altered": "[data-verdict=wrong-size]",
    "signed": "#go",
}
"""What is dropped, and what the page shows then."""
NO_STORAGE = """
globalThis.keep = Storage.prototype.setItem;
Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };
"""


@dataclass(frozen=True)
class Place:
    """A page on a web server with a bundle beside it, one without, what is dropped on them, and the
    key of somebody else.
    """

    url: str
    empty: str
    folder: Path
    stranger: Signer

    def dropped(self, name: str, until: str) -> str:
        return f"files #pick-files | {self.folder}/{name}.zip\nwait {until}\n"


def signed(bundle: Path, folder: Path, key: Signer, release: int, **told: Any) -> str:
    """A copy of a bundle, signed as a release and put into an archive beside it; its id."""
    shutil.copytree(bundle, folder)
    value = json.loads((folder / "manifest.json").read_text())
    publication = Publication(name="face-age", release=release, **told)
    facts = {"schema": "unplug-bundle/2", "publication": publication.__dict__}
    write_manifest(folder, {**value, **facts})
    Signing(signer=key, publication=publication).seal(folder)
    zipped(files_in(folder), folder.with_name(f"{folder.name}.zip"), "age.unplug/")
    return hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def place(built: Built, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Releases 3 to 6 of a product: the fifth supersedes the third; the sixth revokes the fifth and
    ends in two days.
    """
    folder = tmp_path_factory.mktemp("refusal")
    for name in ("release", "other"):
        make_key(folder / "keys" / name)
    ours, theirs = (load_signer(str(folder / "keys" / name)) for name in ("release", "other"))
    in_two_days = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"
    third = signed(bundle, folder / "3", ours, 3)
    signed(bundle, folder / "4", ours, 4)
    fifth = signed(bundle, folder / "5", ours, 5, supersedes=(third,))
    signed(bundle, folder / "6", ours, 6, revokes=(fifth,), expires=in_two_days)
    signed(bundle, folder / "stranger", theirs, 5)
    zipped(files_in(bundle), folder / "unsigned.zip", "age.unplug/")
    altered = files_in(folder / "5") | {"test_vectors/0-image.f32": bytes(12288)}
    zipped(altered, folder / "altered.zip", "age.unplug/")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.PAGE_VARIABLE, str(built.page))
        keys = (ours.key.pem,)
        guard = Guard(trust=PageTrust(keys=keys, bundle=True), bundle=folder / "5.zip")
        write_site({}, folder / "site", guard)
        write_site({}, folder / "empty", Guard(trust=PageTrust(keys=keys)))
    with served(folder / "site") as url, served(folder / "empty") as empty:
        yield Place(url=url, empty=empty, folder=folder, stranger=theirs)


REFUSED = {
    "unsigned": ("unsigned", "This model is not signed"),
    "stranger": ("unknown-key", "Signed by somebody unknown"),
    "altered": ("changed", "This model was altered"),
    "3": ("superseded", "This model has been replaced"),
    "4": ("downgraded", "This model has been replaced"),
}
"""What is dropped on the page after release 5 ran there."""


@pytest.fixture(scope="module")
def accepted(browser: Browser, place: Place) -> dict[str, Any]:
    """The bundle beside the page runs."""
    script = f"""
        {OPEN}
        wait #start
        text <- text #bench
        axe <- axe
        click #start
        wait #download
        states <- texts .state
        seen <- evaluate Object.entries(localStorage)
    """
    return browser(place.url, script, timeout=180)


@pytest.fixture(scope="module")
def visit(browser: Browser, place: Place) -> dict[str, Any]:
    """One browser, which keeps what it saw: release 5 runs, others are dropped, release 6 runs, and
    release 5 comes again.
    """
    again = f"{OPEN}\nwait #pick-files\n"
    script = again + place.dropped("5", "#start") + again
    for name, (verdict, _) in REFUSED.items():
        script += place.dropped(name, f"[data-verdict={verdict}]")
        script += (
            f"title {name} <- text #refused\nstart {name} <- texts #start\naxe {name} <- axe\n"
        )
    script += """click .refusal summary
        details <- text .refusal dl
        size 320 | 640
        narrow <- overflow
        size 390 | 844
        scheme dark
        axe dark <- axe
        scheme light
    """
    script = script.rstrip(" ") + place.dropped("6", "#start") + "dated <- text #bench\n" + again
    script += place.dropped("5", "[data-verdict=revoked]") + "revoked <- text #refused"
    return browser(place.empty, script, timeout=180)


def test_a_signed_release_runs_and_is_remembered(accepted: dict[str, Any]) -> None:
    text = accepted["text"]
    assert "release 5 of face-age, signed by the key" in text
    assert "every file is the one that was signed" in text and "not checked" not in text
    ((where, seen),) = accepted["seen"]
    assert accepted["states"] == ["ok", "ok"]
    assert where.startswith("unplug-seen ") and where.endswith(" face-age")
    assert json.loads(seen)["minimum_release"] == 5 and len(json.loads(seen)["superseded"]) == 1


def test_the_page_says_for_how_long_it_goes_on_without_a_newer_release(
    accepted: dict[str, Any], visit: dict[str, Any]
) -> None:
    undated = (
        "it has no date of expiry: this page goes on with it until you give it a newer release"
    )
    dated = r"goes on with it until \w.*, when it expires, or until you give it a newer release"
    assert undated in accepted["text"] and re.search(dated, visit["dated"])


@pytest.mark.parametrize("name", REFUSED)
def test_what_must_not_run_does_not(visit: dict[str, Any], name: str) -> None:
    assert visit[f"title {name}"] == REFUSED[name][1]
    assert visit[f"start {name}"] == [], "nothing of a refused model can be started"


def test_a_newer_release_takes_an_older_one_back(visit: dict[str, Any]) -> None:
    assert visit["revoked"] == "This model was withdrawn"
    assert "(downgraded)" in visit["details"] and "face-age, release 4" in visit["details"]


def test_the_screens_are_accessible_and_fit(
    accepted: dict[str, Any], visit: dict[str, Any]
) -> None:
    pages = {name: value for name, value in visit.items() if name.startswith("axe ")}
    assert len(pages) == len(REFUSED) + 1 and not any(pages.values()), pages
    assert accepted["axe"] == [] and visit["narrow"] == 0


def test_a_base_draws_where_its_signature_holds(
    browser: Browser, built: Built, tmp_path: Path
) -> None:
    case = json.loads((GENERATOR / "signed.json").read_text())
    own = (path for path in GENERATOR.rglob("*") if path.is_file())
    files = {path.relative_to(GENERATOR).as_posix(): path.read_bytes() for path in own}
    files = {
        name: raw for name, raw in files.items() if name not in ("pictures.json", "signed.json")
    }
    zipped(files, tmp_path / "unsigned.zip", "FILES/")
    files |= {name: base64.b64decode(text) for name, text in case["files"].items()}
    zipped(files, tmp_path / "signed.zip", "small.unplug/")
    zipped(files | {"pipeline.json": b"{}"}, tmp_path / "altered.zip")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.PAGE_VARIABLE, str(built.page))
        write_site({}, tmp_path / "site", Guard(trust=PageTrust(keys=tuple(case["trust"]["keys"]))))
    script = "open\nwait #pick-files\n"
    for name, until in BASES.items():
        script += f"files #pick-files | {tmp_path}/{name}.zip\nwait {until}\n"
    script += "notes <- text .notes\nclick #go\nwait #record\naxe <- axe"
    with served(tmp_path / "site") as url:
        told = browser(url, script, timeout=180, init=IN_DECEMBER)
    assert "release 7 of small, signed by the key 30a4972ea84f73f9" in told["notes"]
    assert told["axe"] == []


def test_where_nothing_can_be_remembered_nothing_runs(browser: Browser, place: Place) -> None:
    script = f"""
        {OPEN}
        wait [data-verdict=error]
        title <- text #refused
        evaluate Storage.prototype.setItem = keep; 0
        click #again
        wait #start
    """
    title = browser(place.url, script, timeout=180, init=NO_STORAGE)["title"]
    assert title == "Is this model still current?"


def test_a_page_whose_trust_was_changed_runs_nothing(browser: Browser, place: Place) -> None:
    trust = place.folder / "site" / "trust.json"
    before = trust.read_bytes()
    trust.write_text(json.dumps({**json.loads(before), "keys": [place.stranger.key.pem]}))
    try:
        script = f"{OPEN}\nwait [data-verdict=insecure-page]\ntext <- text main"
        assert "This page cannot check models" in browser(place.url, script, timeout=180)["text"]
    finally:
        trust.write_bytes(before)


def test_an_expired_release_is_refused(browser: Browser, place: Place) -> None:
    expired, fifth = place.dropped("6", "[data-verdict=expired]"), place.dropped("5", "#start")
    script = f"{OPEN}\nwait #pick-files\n{expired}title <- text #refused\n{fifth}"
    title = browser(place.empty, script, timeout=180, init=IN_A_YEAR)["title"]
    assert title == "This model has expired"
