"""A page made with --trust and --updates: it runs what is signed and current, and shows for everything else why it does not."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from unplug.mobile_bench import Guard, PageTrust, write_site
from unplug.mobile_bench.web import build
from unplug.sdk.bundle import Publication, Signer, Signing, load_signer, make_key
from unplug.sdk.bundle.signing import write_manifest
from unplug.sdk.updates import RoleKeys, init_updates, open_updates
from unplug.sdk.updates.product import Product
from unplug.sdk.updates.publishing import _list
from unplug.sdk.updates.repository import Repository

from .conftest import Built, served
from .test_static import zipped

pytestmark = pytest.mark.long

QUERY = "?repeats=1&iterations=2&warmup=1"
NAMES = ("release", "stranger", "root-a", "root-b", "online")
NOW = datetime.now(UTC)
IN_A_YEAR = "const now = Date.now; Date.now = () => now() + 366 * 864e5;"
"""For the page's clock; the browser's own is left."""
UNREACHED = """
globalThis.reached = fetch;
globalThis.fetch = (address, ...rest) =>
  String(address).includes("updates/") ? Promise.reject(new TypeError()) : reached(address, ...rest);
"""
"""The metadata cannot be fetched, the rest of the page can."""


@dataclass(frozen=True)
class Place:
    """A page on a web server, what is dropped on it, and where pictures go."""

    url: str
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
    write_manifest(folder, {**value, "schema": "unplug-bundle/2", "publication": publication.__dict__})
    Signing(signer=key, publication=publication).seal(folder)
    return folder, hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()


def listed(updates: Path, signer: Signer, product: Product) -> None:
    """Lists a product as it is given, without the gates that publishing a bundle asks for: these have none."""
    draft = Repository.open(updates, [signer], NOW)
    _list(draft, product)
    draft.stage_targets()
    draft.commit(30)


@pytest.fixture(scope="module")
def place(built: Built, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("refusal")
    for name in NAMES:
        make_key(folder / "keys" / name)
    signers = {name: load_signer(str(folder / "keys" / name)) for name in NAMES}
    ours, ids, size = signers["release"], {}, 0
    for release in range(1, 7):
        made, ids[release] = signed(bundle, folder / f"{release}", ours, release)
        size = (made / "manifest.json").stat().st_size
        zipped(made, folder / f"{release}.zip")
    zipped(signed(bundle, folder / "s", signers["stranger"], 5)[0], folder / "stranger.zip")
    zipped(bundle, folder / "unsigned.zip")
    zipped(folder / "5", folder / "altered.zip", {"test_vectors/0-image.f32": bytes(12288)})
    ended = signed(bundle, folder / "e", ours, 5, expires=f"{NOW + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}")
    zipped(ended[0], folder / "expired.zip")
    updates, online = folder / "updates", signers["online"]
    keys = RoleKeys(root=(signers["root-a"].key, signers["root-b"].key), targets=(online.key,), snapshot=(online.key,),
                    timestamp=(online.key,))  # fmt: skip
    init_updates(updates, keys, [*signers.values()])
    listed(updates, online, Product(
        name="face-age", release=5, sha256=ids[5], bytes=size, minimum_version=2,
        retiring=((3, NOW - timedelta(days=1)), (5, NOW + timedelta(days=20))), revoked=frozenset({3}),
        releases={number: ids[number] for number in range(2, 6)},
    ))  # fmt: skip
    root, _ = open_updates(updates)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(build.PAGE_VARIABLE, str(built.page))
        said = PageTrust(keys=(ours.key.pem,), root=base64.b64encode(root).decode(), bundle=True)
        write_site({}, folder / "site", Guard(trust=said, bundle=folder / "5.zip", updates=updates / "metadata"))
    with served(folder / "site") as url:
        yield Place(url=url, site=folder / "site", folder=folder, signers=signers)


REFUSED = {
    "unsigned": ("unsigned", "This model is not signed"),
    "stranger": ("unknown-key", "Signed by somebody unknown"),
    "altered": ("changed", "This model was altered"),
    "1": ("superseded", "This model has been replaced"),
    "2": ("retired", "This model has been replaced"),
    "3": ("revoked", "This model was withdrawn"),
    "6": ("unpublished", "This model was never published"),
}


@pytest.fixture(scope="module")
def visit(browser: Any, place: Place) -> dict[str, Any]:
    """One visit: the bundle beside the page runs, then others are dropped, and the current one again."""
    named: list[tuple[str, list[Any]]] = [
        ("", ["open", QUERY]), ("", ["wait", "#start"]), ("accepted", ["text", "#bench"]), ("accepted page", ["axe"]),
        ("", ["click", "#start"]), ("", ["wait", "#download"]), ("states", ["texts", ".state"]),
        ("seen", ["evaluate", "Object.values(localStorage)[0]"]),
    ]  # fmt: skip
    drops: list[tuple[str, list[Any]]] = []
    for name, (verdict, _) in REFUSED.items():
        drops += [
            ("", ["files", "#pick-files", place.zip(name)]), ("", ["wait", f"[data-verdict={verdict}]"]),
            (f"title {name}", ["text", "#refused"]), (f"text {name}", ["text", "#bench"]),
            (f"start {name}", ["texts", "#start"]), (f"axe {name}", ["axe"]),
            ("", ["shot", str(place.folder / f"{name}.png"), True]),
        ]  # fmt: skip
    drops += [
        ("", ["click", ".refusal summary"]), ("details", ["text", ".refusal dl"]), ("", ["size", 320, 640]),
        ("narrow", ["overflow"]), ("", ["size", 390, 844]), ("", ["scheme", "dark"]), ("dark", ["axe"]),
        ("", ["shot", str(place.folder / "dark.png"), True]), ("", ["scheme", "light"]),
        ("", ["files", "#pick-files", place.zip("4")]), ("", ["wait", "#start"]), ("notice", ["text", "#notice"]),
        ("noticed page", ["axe"]), ("", ["shot", str(place.folder / "notice.png"), True]),
    ]  # fmt: skip
    found = run(browser, place.url, named)
    (place.site / "bundle.zip").rename(place.folder / "aside.zip")
    try:
        shutil.copyfile(place.zip("unsigned"), place.site / "bundle.zip")
        more = run(browser, place.url, [("", ["open", QUERY]), ("", ["wait", "[data-verdict=unsigned]"]), *drops])
    finally:
        (place.folder / "aside.zip").replace(place.site / "bundle.zip")
    return {**found, **more, "strangers": found["strangers"] + more["strangers"], "errors": found["errors"] + more["errors"]}


def run(browser: Any, url: str, named: list[tuple[str, list[Any]]], **more: Any) -> dict[str, Any]:
    result = browser(url, [step for _, step in named], timeout=180, **more)
    found = {name: value for (name, _), value in zip(named, result["found"], strict=True) if name}
    return {**found, **{name: result[name] for name in ("strangers", "errors")}}


def test_the_current_release_runs(visit: dict[str, Any]) -> None:
    assert "release 5 of face-age, signed by the key" in visit["accepted"]
    assert "every file is the one that was signed" in visit["accepted"] and "not checked" not in visit["accepted"]
    assert "its publisher's word on it counts until" in visit["accepted"]
    assert visit["states"] == ["ok", "ok"]
    assert json.loads(visit["seen"])["timestamp"] == 2, "the highest versions are kept"


@pytest.mark.parametrize(("name", "verdict", "title"), [(name, *rest) for name, rest in REFUSED.items()], ids=[*REFUSED])
def test_what_must_not_run_does_not(visit: dict[str, Any], name: str, verdict: str, title: str) -> None:
    assert visit[f"title {name}"] == title
    assert verdict in visit[f"text {name}"] or "Details" in visit[f"text {name}"]
    assert visit[f"start {name}"] == [], "nothing of a refused model can be started"


def test_a_release_in_its_grace_period_says_when_it_stops(visit: dict[str, Any]) -> None:
    assert visit["notice"].startswith("Release 5 is the newest; this is release 4. It stops working on ")


def test_the_details_are_for_whoever_is_asked(visit: dict[str, Any]) -> None:
    assert "(unpublished)" in visit["details"] and "face-age, release 6" in visit["details"]


def test_the_screens_are_accessible_and_fit(visit: dict[str, Any]) -> None:
    pages = {name: value for name, value in visit.items() if name.startswith("axe ")}
    assert len(pages) == len(REFUSED) and all(value == [] for value in pages.values()), pages
    assert visit["dark"] == visit["accepted page"] == visit["noticed page"] == [] and visit["narrow"] == 0


def test_nothing_comes_from_elsewhere(visit: dict[str, Any]) -> None:
    assert visit["strangers"] == []
    assert not any("Content Security Policy" in line or "Uncaught" in line for line in visit["errors"]), visit["errors"]


def test_without_news_nothing_runs_and_with_news_it_does_again(browser: Any, place: Place) -> None:
    steps = [("", ["open", QUERY]), ("", ["wait", "[data-verdict=stale]"]), ("title", ["text", "#refused"]),
             ("", ["shot", str(place.folder / "stale.png"), True])]  # fmt: skip
    assert run(browser, place.url, steps, init=IN_A_YEAR)["title"] == "Is this model still current?"
    steps = [("", ["open", QUERY]), ("", ["wait", "[data-verdict=missing]"]), ("title", ["text", "#refused"]),
             ("", ["evaluate", "globalThis.fetch = reached"]), ("", ["click", "#again"]), ("", ["wait", "#start"])]  # fmt: skip
    assert run(browser, place.url, steps, init=UNREACHED)["title"] == "Is this model still current?"


def test_a_page_whose_trust_was_changed_runs_nothing(browser: Any, place: Place) -> None:
    trust = place.site / "trust.json"
    before = trust.read_bytes()
    other = place.signers["stranger"].key.pem
    trust.write_text(json.dumps({**json.loads(before), "keys": [other]}))
    try:
        steps = [("", ["open", QUERY]), ("", ["wait", "[data-verdict=insecure-page]"]), ("text", ["text", "main"])]
        assert "This page cannot check models" in run(browser, place.url, steps)["text"]
    finally:
        trust.write_bytes(before)


def test_trust_without_updates_looks_at_the_bundles_own_expiry(
    browser: Any, place: Place, built: Built, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(build.PAGE_VARIABLE, str(built.page))
    write_site({}, tmp_path / "site", Guard(trust=PageTrust(keys=(place.signers["release"].key.pem,))))
    steps = [("", ["open", QUERY]), ("", ["wait", "#pick-files"]), ("", ["files", "#pick-files", place.zip("expired")]),
             ("", ["wait", "[data-verdict=expired]"]), ("title", ["text", "#refused"]),
             ("", ["files", "#pick-files", place.zip("5")]), ("", ["wait", "#start"])]  # fmt: skip
    with served(tmp_path / "site") as url:
        assert run(browser, url, steps, init=IN_A_YEAR)["title"] == "This model has expired"
