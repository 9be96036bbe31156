"""A page made with --trust: it runs what is signed and not older than it saw, and shows for
everything else why it does not.
"""

from __future__ import annotations

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

from .conftest import Built, served
from .test_static import zipped

pytestmark = pytest.mark.nightly

QUERY = "?repeats=1&iterations=2&warmup=1"
NAMES = ("release", "stranger")
NOW = datetime.now(UTC)
IN_A_YEAR = "const now = Date.now; Date.now = () => now() + 366 * 864e5;"
"""For the page's clock; the browser's own is left."""
NO_STORAGE = """
globalThis.keep = Storage.prototype.setItem;
Storage.prototype.setItem = () => { throw new DOMException("full", "QuotaExceededError"); };
"""


@dataclass(frozen=True)
class Place:
    """A page on a web server with a bundle beside it, one without, what is dropped on them, and
    where pictures go.
    """

    url: str
    empty: str
    site: Path
    folder: Path
    signers: dict[str, Signer]

    def zip(self, name: str) -> str:
        return str(self.folder / f"{name}.zip")


def signed(bundle: Path, folder: Path, key: Signer, release: int, **said: Any) -> tuple[Path, str]:
    """A copy of a bundle, signed as a release, and its id."""
    shutil.copytree(bundle, folder)
    value = json.loads((folder / "manifest.json").read_text())
    publication = Publication(name="face-age", release=release, **said)
    write_manifest(
        folder, {**value, "schema": "unplug-bundle/2", "publication": publication.__dict__}
    )
    Signing(signer=key, publication=publication).seal(folder)
    return folder, hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def place(built: Built, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Releases 3 to 6 of a product: the fifth supersedes the third; the sixth revokes the fifth and
    ends in two days.
    """
    folder = tmp_path_factory.mktemp("refusal")
    for name in NAMES:
        make_key(folder / "keys" / name)
    signers = {name: load_signer(str(folder / "keys" / name)) for name in NAMES}
    ours, ids = signers["release"], dict[int, str]()
    in_two_days = f"{NOW + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"
    for release in (3, 4, 5, 6):
        said: dict[str, Any] = {}
        if release == 5:
            said = {"supersedes": (ids[3],)}
        if release == 6:
            said = {"revokes": (ids[5],), "expires": in_two_days}
        made, ids[release] = signed(bundle, folder / f"{release}", ours, release, **said)
        zipped(made, folder / f"{release}.zip")
    zipped(signed(bundle, folder / "s", signers["stranger"], 5)[0], folder / "stranger.zip")
    zipped(bundle, folder / "unsigned.zip")
    zipped(folder / "5", folder / "altered.zip", {"test_vectors/0-image.f32": bytes(12288)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.PAGE_VARIABLE, str(built.page))
        keys = (ours.key.pem,)
        write_site(
            {},
            folder / "site",
            Guard(trust=PageTrust(keys=keys, bundle=True), bundle=folder / "5.zip"),
        )
        write_site({}, folder / "empty", Guard(trust=PageTrust(keys=keys)))
    with served(folder / "site") as url, served(folder / "empty") as empty:
        yield Place(url=url, empty=empty, site=folder / "site", folder=folder, signers=signers)


REFUSED = {
    "unsigned": ("unsigned", "This model is not signed"),
    "stranger": ("unknown-key", "Signed by somebody unknown"),
    "altered": ("changed", "This model was altered"),
    "3": ("superseded", "This model has been replaced"),
    "4": ("downgraded", "This model has been replaced"),
}
"""What is dropped on the page after release 5 ran there."""


Steps = list[tuple[str, list[Any]]]


def dropped(place: Place, name: str, until: str) -> Steps:
    return [("", ["files", "#pick-files", place.zip(name)]), ("", ["wait", until])]


@pytest.fixture(scope="module")
def accepted(browser: Any, place: Place) -> dict[str, Any]:
    """The bundle beside the page runs."""
    steps: Steps = [
        ("", ["open", QUERY]),
        ("", ["wait", "#start"]),
        ("text", ["text", "#bench"]),
        ("axe", ["axe"]),
        ("", ["click", "#start"]),
        ("", ["wait", "#download"]),
        ("states", ["texts", ".state"]),
        ("seen", ["evaluate", "Object.entries(localStorage)"]),
    ]
    return run(browser, place.url, steps)


@pytest.fixture(scope="module")
def visit(browser: Any, place: Place) -> dict[str, Any]:
    """One browser, which keeps what it saw: release 5 runs, others are dropped, release 6 runs, and
    release 5 comes again.
    """
    again: Steps = [("", ["open", QUERY]), ("", ["wait", "#pick-files"])]
    steps = [*again, *dropped(place, "5", "#start"), *again]
    for name, (verdict, _) in REFUSED.items():
        steps += [
            *dropped(place, name, f"[data-verdict={verdict}]"),
            (f"title {name}", ["text", "#refused"]),
            (f"start {name}", ["texts", "#start"]),
            (f"axe {name}", ["axe"]),
            ("", ["shot", str(place.folder / f"{name}.png"), True]),
        ]
    steps += [
        ("", ["click", ".refusal summary"]),
        ("details", ["text", ".refusal dl"]),
        ("", ["size", 320, 640]),
        ("narrow", ["overflow"]),
        ("", ["size", 390, 844]),
        ("", ["scheme", "dark"]),
        ("dark", ["axe"]),
        ("", ["scheme", "light"]),
        *dropped(place, "6", "#start"),
        ("dated", ["text", "#bench"]),
        *again,
        *dropped(place, "5", "[data-verdict=revoked]"),
        ("revoked", ["text", "#refused"]),
    ]
    return run(browser, place.empty, steps)


def run(browser: Any, url: str, named: Steps, **more: Any) -> dict[str, Any]:
    result = browser(url, [step for _, step in named], timeout=180, **more)
    found = {name: value for (name, _), value in zip(named, result["found"], strict=True) if name}
    return {**found, **{name: result[name] for name in ("strangers", "errors")}}


def test_a_signed_release_runs_and_is_remembered(accepted: dict[str, Any]) -> None:
    assert "release 5 of face-age, signed by the key" in accepted["text"] and accepted[
        "states"
    ] == ["ok", "ok"]
    assert (
        "every file is the one that was signed" in accepted["text"]
        and "not checked" not in accepted["text"]
    )
    ((place, seen),) = accepted["seen"]
    assert place.startswith("unplug-seen ") and place.endswith(" face-age")
    assert json.loads(seen)["minimum_release"] == 5 and len(json.loads(seen)["superseded"]) == 1


def test_the_page_says_for_how_long_it_goes_on_without_a_newer_release(
    accepted: dict[str, Any], visit: dict[str, Any]
) -> None:
    assert (
        "it has no date of expiry: this page goes on with it until you give it a newer release"
        in accepted["text"]
    )
    assert re.search(
        r"goes on with it until \w.*, when it expires, or until you give it a newer release",
        visit["dated"],
    )


@pytest.mark.parametrize(
    ("name", "verdict", "title"), [(name, *rest) for name, rest in REFUSED.items()], ids=[*REFUSED]
)
def test_what_must_not_run_does_not(
    visit: dict[str, Any], name: str, verdict: str, title: str
) -> None:
    assert visit[f"title {name}"] == title
    assert visit[f"start {name}"] == [], "nothing of a refused model can be started"


def test_a_newer_release_takes_an_older_one_back(visit: dict[str, Any]) -> None:
    assert visit["revoked"] == "This model was withdrawn"


def test_the_details_are_for_whoever_is_asked(visit: dict[str, Any]) -> None:
    assert "(downgraded)" in visit["details"] and "face-age, release 4" in visit["details"]


def test_the_screens_are_accessible_and_fit(
    accepted: dict[str, Any], visit: dict[str, Any]
) -> None:
    pages = {name: value for name, value in visit.items() if name.startswith("axe ")}
    assert len(pages) == len(REFUSED) and all(value == [] for value in pages.values()), pages
    assert visit["dark"] == accepted["axe"] == [] and visit["narrow"] == 0


def test_nothing_comes_from_elsewhere(accepted: dict[str, Any], visit: dict[str, Any]) -> None:
    assert accepted["strangers"] == visit["strangers"] == []
    errors = accepted["errors"] + visit["errors"]
    assert not any("Content Security Policy" in line or "Uncaught" in line for line in errors), (
        errors
    )


def test_where_nothing_can_be_remembered_nothing_runs(browser: Any, place: Place) -> None:
    steps: Steps = [
        ("", ["open", QUERY]),
        ("", ["wait", "[data-verdict=error]"]),
        ("title", ["text", "#refused"]),
        ("", ["evaluate", "Storage.prototype.setItem = keep; 0"]),
        ("", ["click", "#again"]),
        ("", ["wait", "#start"]),
    ]
    assert (
        run(browser, place.url, steps, init=NO_STORAGE)["title"] == "Is this model still current?"
    )


def test_a_page_whose_trust_was_changed_runs_nothing(browser: Any, place: Place) -> None:
    trust = place.site / "trust.json"
    before = trust.read_bytes()
    other = place.signers["stranger"].key.pem
    trust.write_text(json.dumps({**json.loads(before), "keys": [other]}))
    try:
        steps = [
            ("", ["open", QUERY]),
            ("", ["wait", "[data-verdict=insecure-page]"]),
            ("text", ["text", "main"]),
        ]
        assert "This page cannot check models" in run(browser, place.url, steps)["text"]
    finally:
        trust.write_bytes(before)


def test_an_expired_release_is_refused(browser: Any, place: Place) -> None:
    steps: Steps = [
        ("", ["open", QUERY]),
        ("", ["wait", "#pick-files"]),
        *dropped(place, "6", "[data-verdict=expired]"),
        ("title", ["text", "#refused"]),
        *dropped(place, "5", "#start"),
    ]
    assert run(browser, place.empty, steps, init=IN_A_YEAR)["title"] == "This model has expired"
