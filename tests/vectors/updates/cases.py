"""The cases: what was done to the files, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .recipe import BYTES, IDS, LATER, NOW, Change, Keys, Part, Root, World, id_of, key_of, put, same, sign, swap, without

PRESENT = World()


@dataclass(frozen=True, kw_only=True)
class Case:
    """One case; see `make`.

    Args:
        trusted: which root the reader has.
        trusted_sent: changes its bytes.
        before: what it saw.
        stops, until: the answer, where it is valid.
        of_release: whether the verdict is about the release, not the metadata; for words that mean both.
        tuf: "accepts" or "refuses", where python-tuf's client judges otherwise than this one.
    """

    verdict: str
    world: World = PRESENT
    trusted: int = 1
    trusted_sent: Change = same
    before: World | None = None
    now: str = NOW
    name: str = "face-age"
    release: int = 9
    id: str | None = None
    size: int | None = None
    stops: str | None = None
    until: str = LATER
    of_release: bool = True
    tuf: str | None = None


def root(**part: Any) -> World:
    return World(roots=(Root(), Root(keys=SECOND, part=Part(**part))))


def case(verdict: str, kind: str, **part: Any) -> Case:
    """A case whose one file was changed."""
    tuf = part.pop("tuf", None)
    parts: Mapping[str, Any] = {kind: Part(**part)}
    return Case(verdict=verdict, world=root(**part) if kind == "root" else World(**parts), tuf=tuf, of_release=False)


def product(verdict: str, change: Change, **more: Any) -> Case:
    return Case(verdict=verdict, world=World(product=change), **more)


SECOND = Keys(root=("root2", "root3", "root4"))
THIRD = Keys(root=("root3", "root4", "root5"), timestamp=("timestamp2",), snapshot=("snapshot2",), targets=("targets2",))
ROOTS = (Root(), Root(keys=SECOND), Root(keys=THIRD))
SEEN = World(versions=(5, 4, 3))
FAST = World(versions=(9_007_199_254_740_991, 9_007_199_254_740_990, 9_007_199_254_740_989))
META = ("meta", "snapshot.json")
END = "2026-12-24T00:00:00Z"
BOTH = Keys(timestamp=("timestamp", "timestamp2"))
deep: Any = 0
for _ in range(70):
    deep = [deep]


def twice(message: Any) -> Any:
    """The same signature once more."""
    return {**message, "signatures": [*message["signatures"], message["signatures"][0]]}


def also(*names: str) -> Change:
    """More signatures, which hold, by keys that do not count, or wrong ones."""
    junk = [{"keyid": id_of(name), "sig": sign("stranger", b"else")["sig"]} for name in names]
    return lambda whole: {**whole, "signatures": [*junk, *whole["signatures"]]}


def ber(whole: Any) -> Any:
    """The signature with a zero in front of r that DER does not allow."""
    raw = bytes.fromhex(whole["signatures"][0]["sig"])
    zero = b"\0" if raw[4] else b"\0\0"
    bad = bytes([0x30, raw[1] + len(zero), 2, raw[3] + len(zero)]) + zero + raw[4:]
    return put("signatures", 0, "sig", to=bad.hex())(whole)


def aliased(body: Any) -> Any:
    """One key under two names, so that one signature could count twice."""
    alias = "a" * 64
    body = put("keys", alias, to=key_of("root3"))({**body, "keys": {**body["keys"], alias: None}})
    return put("roles", "root", "keyids", to=[id_of("root3"), alias])(body)


GOOD: list[tuple[str, Case]] = [
    ("current", Case(verdict="valid")),
    ("in-its-grace-period", Case(verdict="valid", release=7, stops=END)),
    ("last-second-of-grace", Case(verdict="valid", release=7, stops=END, now="2026-12-23T23:59:59Z")),
    ("last-second-of-metadata", Case(verdict="valid", now="2027-05-31T23:59:59Z")),
    ("the-same-again", Case(verdict="valid", before=SEEN)),
    ("newer-than-seen", Case(verdict="valid", before=World(versions=(4, 3, 2)))),
    ("rotated-root", Case(verdict="valid", world=World(roots=ROOTS))),
    ("rotated-root-from-its-middle", Case(verdict="valid", world=World(roots=ROOTS), trusted=2)),
    ("rotated-root-that-the-app-has", Case(verdict="valid", world=World(roots=ROOTS), trusted=3)),
    ("rotated-root-after-it-was-seen", Case(verdict="valid", world=World(roots=ROOTS), before=World(roots=ROOTS[:2]))),
    ("an-expired-root-on-the-way", Case(verdict="valid", world=World(roots=(
        Root(), Root(keys=SECOND, part=Part(body=put("expires", to="2026-01-01T00:00:00Z"))), Root(keys=THIRD))))),
    ("an-expired-trusted-root-with-a-newer-one", Case(verdict="valid", world=World(roots=(
        Root(part=Part(body=put("expires", to="2026-01-01T00:00:00Z"))), Root(keys=SECOND))))),
    ("recovered-from-fast-forward", Case(verdict="valid", world=World(roots=ROOTS), before=FAST)),
    ("all-three-root-keys", case("valid", "root", by=("root1", "root2", "root3", "root4"))),
    ("a-wrong-signature-beside-enough", case("valid", "timestamp", whole=also("stranger"))),
    ("one-of-two-timestamp-keys",
     Case(verdict="valid", world=World(roots=(Root(keys=BOTH),), timestamp=Part(by=("timestamp",))))),
    ("unknown-fields", case("valid", "timestamp", body=lambda body: {**body, "x": {"ü\n\"\\": [None, True, -5]}})),
    ("pretty-printed", case("valid", "timestamp", raw=swap(b'{"signatures":', b'{\n "signatures" : '))),
    ("spec-of-two-numbers", case("valid", "timestamp", body=put("spec_version", to="1.0"), tuf="accepts")),
    ("largest-version", Case(verdict="valid", world=FAST)),
    ("sooner-than-the-others", Case(verdict="valid", until="2026-12-08T00:00:00Z",
                                    world=World(timestamp=Part(body=put("expires", to="2026-12-08T00:00:00Z"))))),
]  # fmt: skip

RELEASES: list[tuple[str, Case]] = [
    ("below-the-minimum", Case(verdict="superseded", release=5)),
    ("minimum-raised", product("superseded", put("custom", "minimum_version", to=9), release=7)),
    ("revoked", Case(verdict="revoked", release=8)),
    ("revoked-and-current", product("revoked", put("custom", "revoked", to=[9]))),
    ("grace-period-over", Case(verdict="retired", release=7, now=END)),
    ("grace-period-over-long-ago", Case(verdict="retired", release=6)),
    ("signed-but-never-published", Case(verdict="unpublished", release=10)),
    ("another-bundle-of-that-number", Case(verdict="unpublished", id=IDS[10])),
    ("another-bundle-of-an-older-number", Case(verdict="unpublished", release=7, id=IDS[10])),
    ("wrong-size-of-the-manifest", Case(verdict="wrong-size", size=BYTES + 1)),
    ("another-product", Case(verdict="unknown-product", name="face-age-2")),
    ("a-name-of-every-object", Case(verdict="unknown-product", name="constructor")),
]

HOSTILE: list[tuple[str, Case]] = [
    ("rollback-of-timestamp", Case(verdict="rollback", world=World(versions=(4, 4, 3)), before=SEEN)),
    ("rollback-of-snapshot", Case(verdict="rollback", world=World(versions=(6, 3, 3)), before=SEEN)),
    ("rollback-of-targets", Case(verdict="rollback", world=World(versions=(6, 5, 2)), before=SEEN)),
    ("rollback-of-everything", Case(verdict="rollback", world=World(versions=(1, 1, 1)), before=SEEN)),
    ("rollback-of-root", Case(verdict="rollback", world=World(roots=ROOTS[:1]), before=World(roots=ROOTS[:2]), tuf="accepts")),
    ("fast-forward-without-new-keys", Case(verdict="rollback", before=FAST)),
    ("fast-forward-with-another-role-rotated", Case(verdict="rollback", before=FAST, world=World(
        roots=(Root(), Root(keys=Keys(root=SECOND.root, targets=("targets2",))))))),
    ("fast-forward-with-a-key-added", Case(verdict="rollback", before=FAST, world=World(roots=(Root(), Root(keys=BOTH))))),
    ("fast-forward-with-only-timestamp-rotated", Case(verdict="rollback", before=FAST, world=World(
        roots=(Root(), Root(keys=Keys(timestamp=("timestamp2",))))))),
    ("frozen", Case(verdict="stale", now=LATER)),
    ("frozen-timestamp", case("stale", "timestamp", body=put("expires", to=NOW))),
    ("frozen-snapshot", case("stale", "snapshot", body=put("expires", to=NOW))),
    ("frozen-targets", case("stale", "targets", body=put("expires", to=NOW))),
    ("frozen-root", case("stale", "root", body=put("expires", to=NOW))),
    ("frozen-trusted-root", Case(verdict="stale", world=World(roots=(Root(part=Part(body=put("expires", to=NOW))),)))),
    ("mixed-older-snapshot", case("mismatch", "snapshot", body=put("version", to=3))),
    ("mixed-newer-snapshot", case("mismatch", "snapshot", body=put("version", to=5))),
    ("mixed-older-targets", case("mismatch", "targets", body=put("version", to=2))),
    ("mixed-root", case("mismatch", "root", body=put("version", to=3))),
    ("mixed-root-again", case("mismatch", "root", body=put("version", to=1))),
    ("swapped-snapshot", case("changed", "snapshot", sent=swap(b'"version":4', b'"version":6'))),
    ("swapped-targets", case("changed", "targets", sent=swap(b'"minimum_version":6', b'"minimum_version":1'))),
    ("snapshot-with-a-space", case("wrong-size", "snapshot", sent=lambda raw: raw + b" ")),
    ("targets-with-a-space", case("wrong-size", "targets", sent=lambda raw: raw + b" ")),
    ("targets-cut", case("wrong-size", "targets", sent=lambda raw: raw[:-1])),
    ("listed-with-another-hash", case("changed", "targets", entry=put("hashes", "sha256", to="0" * 64))),
    ("listed-with-another-size", case("wrong-size", "targets", entry=put("length", to=99999))),
    ("listed-with-another-version", case("missing", "targets", entry=put("version", to=4))),
    ("timestamp-altered", case("signature", "timestamp", sent=swap(b'"version":5', b'"version":6'))),
    ("timestamp-by-a-stranger", case("signature", "timestamp", by=("stranger",))),
    ("timestamp-by-the-snapshot-key", case("signature", "timestamp", by=("snapshot",))),
    ("snapshot-by-the-timestamp-key", case("signature", "snapshot", by=("timestamp",))),
    ("targets-by-the-timestamp-key", case("signature", "targets", by=("timestamp",))),
    ("targets-by-root-keys", case("signature", "targets", by=("root1", "root2"))),
    ("targets-unsigned", case("signature", "targets", by=())),
    ("targets-with-an-empty-signature", case("signature", "targets", whole=put("signatures", 0, "sig", to=""))),
    ("targets-in-ber", case("signature", "targets", whole=ber)),
    ("targets-with-the-key-of-another", case("signature", "targets", by=("stranger",),
                                             whole=put("signatures", 0, "keyid", to=id_of("targets")))),
    ("signed-twice-by-one-key", case("format", "root", by=("root2", "root1"), whole=twice)),
    ("root-by-one-old-key", case("signature", "root", by=("root2", "root4"))),
    ("root-by-old-keys-only", case("signature", "root", by=("root1", "root2"), body=put("version", to=2))),
    ("root-by-new-keys-only", case("signature", "root", by=("root3", "root4"))),
    ("root-by-strangers", case("signature", "root", by=("stranger",))),
    ("root-unsigned", case("signature", "root", by=())),
    ("trusted-root-by-one-key", Case(verdict="signature", world=World(roots=(Root(part=Part(by=("root1",))),)))),
    ("trusted-root-altered", Case(verdict="signature", trusted_sent=swap(b'"version":1', b'"version":2'))),
    ("rotated-without-the-chain", Case(verdict="signature", world=World(roots=ROOTS, drop=("2.root.json",)))),
    ("rotated-without-any-root", Case(verdict="signature", world=World(roots=ROOTS, drop=("2.root.json", "3.root.json")))),
    ("rotated-and-signed-by-the-keys-before", Case(verdict="signature", world=World(roots=ROOTS, signed_under=0))),
    ("a-second-root-that-renames-the-first", Case(verdict="mismatch", world=World(
        roots=(Root(), Root(keys=SECOND, part=Part(body=put("version", to=1))))))),
    ("root-threshold-lowered-by-one-key",
     case("signature", "root", body=put("roles", "root", "threshold", to=1), by=("root2",))),
    ("one-key-under-two-names", case("format", "root", by=("root1", "root2", "root3"), body=aliased)),
    ("a-key-under-another-id", case("format", "root", tuf="accepts", body=lambda body: {
        **body, "keys": {**body["keys"], "b" * 64: key_of("stranger")}})),
    ("no-timestamp", Case(verdict="missing", world=World(drop=("timestamp.json",)))),
    ("no-snapshot", Case(verdict="missing", world=World(drop=("4.snapshot.json",)))),
    ("no-targets", Case(verdict="missing", world=World(drop=("3.targets.json",)))),
    ("huge-timestamp", Case(verdict="too-large", world=World(pad={"timestamp.json": 16_385}))),
    ("huge-snapshot", Case(verdict="too-large", world=World(pad={"4.snapshot.json": 2_000_001}))),
    ("huge-targets", Case(verdict="too-large", world=World(pad={"3.targets.json": 5_000_001}))),
    ("huge-root", Case(verdict="too-large", world=World(roots=ROOTS[:2], pad={"2.root.json": 512_001}))),
]  # fmt: skip

FORMS: list[tuple[str, Case]] = [
    ("not-json", case("format", "timestamp", raw=lambda raw: raw[:-1])),
    ("a-byte-order-mark", case("format", "timestamp", raw=lambda raw: b"\xef\xbb\xbf" + raw)),
    ("latin-1", case("format", "timestamp", body=lambda body: {**body, "x": "e"}, raw=swap(b'"x":"e"', b'"x":"\xe9"'))),
    ("a-list", case("format", "timestamp", raw=lambda raw: b"[" + raw + b"]")),
    ("deep", case("format", "timestamp", body=lambda body: {**body, "x": deep}, tuf="accepts")),
    ("duplicate-key", case("format", "timestamp", raw=swap(b'"version":5', b'"version":7,"version":5'), tuf="accepts")),
    ("duplicate-key-escaped",
     case("format", "targets", raw=swap(b'"release":9', b'"rele\\u0061se":99,"release":9'), tuf="accepts")),
    ("duplicate-signed", case("format", "snapshot", raw=swap(b'"signatures":', b'"signed":{},"signatures":'), tuf="accepts")),
    ("half-a-character", case("format", "timestamp", body=lambda body: {**body, "x": "e"},
                              raw=swap(b'"x":"e"', b'"x":"\\ud800"'))),
    ("not-a-number", case("format", "timestamp", body=lambda body: {**body, "x": 0}, raw=swap(b'"x":0', b'"x":NaN'))),
    ("a-fraction", case("format", "timestamp", raw=swap(b'"version":5', b'"version":5.0'))),
    ("an-exponent", case("format", "timestamp", raw=swap(b'"version":5', b'"version":5e0'))),
    ("a-version-beyond-2-53", case("format", "timestamp", body=put("version", to=2**53), tuf="accepts")),
    ("version-zero", case("format", "timestamp", body=put("version", to=0))),
    ("version-true", case("format", "timestamp", body=put("version", to=True), tuf="accepts")),
    ("version-in-quotes", case("format", "timestamp", body=put("version", to="5"))),
    ("no-version", case("format", "timestamp", body=without("version"))),
    ("no-expiry", case("format", "timestamp", body=without("expires"))),
    ("expiry-with-fractions", case("format", "timestamp", body=put("expires", to="2027-06-01T00:00:00.5Z"))),
    ("expiry-that-never-was", case("format", "timestamp", body=put("expires", to="2027-02-30T00:00:00Z"))),
    ("another-type", case("format", "snapshot", body=put("_type", to="targets"))),
    ("spec-version-2", case("format", "timestamp", body=put("spec_version", to="2.0.0"))),
    ("surplus-beside-signed", case("format", "timestamp", whole=lambda whole: {**whole, "x": 1}, tuf="accepts")),
    ("signature-in-capitals", case("format", "timestamp", whole=put("signatures", 0, "sig", to=str.upper), tuf="accepts")),
    ("signature-of-half-a-byte", case("format", "timestamp", whole=put("signatures", 0, "sig", to=lambda sig: sig[:-1]))),
    ("signature-that-is-a-number", case("format", "timestamp", whole=put("signatures", 0, "sig", to=5))),
    ("two-files-in-timestamp", case("format", "timestamp", body=lambda body: {
        **body, "meta": {**body["meta"], "x.json": body["meta"]["snapshot.json"]}})),
    ("no-hash-of-snapshot", case("format", "timestamp", body=without(*META, "hashes"), tuf="accepts")),
    ("no-size-of-snapshot", case("format", "timestamp", body=without(*META, "length"), tuf="accepts")),
    ("another-hash-of-snapshot", case("format", "timestamp", body=put(*META, "hashes", to={"sha512": "0" * 128}))),
    ("delegations", case("format", "targets", tuf="accepts", body=lambda body: {
        **body, "delegations": {"keys": {}, "roles": []}})),
    ("no-targets-listed", case("format", "targets", body=without("targets"))),
    ("roots-not-numbered", case("format", "root", body=put("consistent_snapshot", to=False))),
    ("five-roles", case("format", "root", body=put("roles", to=lambda roles: {**roles, "mirrors": roles["targets"]}))),
    ("three-roles", case("format", "root", body=without("roles", "snapshot"))),
    ("role-without-keys", case("format", "root", body=put("roles", "targets", "keyids", to=[]), tuf="refuses")),
    ("role-with-threshold-zero", case("format", "root", body=put("roles", "targets", "threshold", to=0))),
    ("role-with-a-key-twice", case("format", "root", body=put("roles", "targets", "keyids", to=lambda ids: ids * 2))),
    ("role-with-an-unknown-key", case("format", "root", body=put("roles", "targets", "keyids", to=lambda ids: [*ids, "c" * 64]),
                                      tuf="accepts")),
    ("an-ed25519-key", case("format", "root", tuf="accepts", body=lambda body: {**body, "keys": {**body["keys"], "d" * 64: {
        "keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": "0" * 64}}}})),
    ("target-of-another-name", case("format", "targets", tuf="accepts", body=put("targets", to=lambda found: {
        **found, "face-age/model.tflite": found["face-age/manifest.json"]}))),
    ("target-that-leads-out", case("format", "targets", tuf="accepts", body=put("targets", to=lambda found: {
        **found, "../manifest.json": found["face-age/manifest.json"]}))),
    ("target-without-custom", product("format", without("custom"), tuf="accepts")),
    ("target-with-more", product("format", put("custom", to=lambda said: {**said, "x": 1}), tuf="accepts")),
    ("target-of-no-bytes", product("format", put("length", to=0), tuf="accepts")),
    ("release-zero", product("format", put("custom", "release", to=0), tuf="accepts")),
    ("minimum-above-the-release", product("format", put("custom", "minimum_version", to=10), tuf="accepts")),
    ("current-is-not-listed", product("format", without("custom", "releases", "9"), tuf="accepts")),
    ("current-has-another-id", product("format", put("custom", "releases", "9", to=IDS[10]), tuf="accepts")),
    ("a-listed-release-above-the-current", product("format", put("custom", "releases", to=lambda ids: {**ids, "10": IDS[10]}),
                                                   tuf="accepts")),
    ("a-listed-release-with-a-zero",
     product("format", put("custom", "releases", to=lambda ids: {**ids, "06": IDS[6]}), tuf="accepts")),
    ("revoked-is-not-listed", product("format", put("custom", "revoked", to=[3]), tuf="accepts")),
    ("retiring-without-time", product("format", put("custom", "retiring", 0, "until", to=None), tuf="accepts")),
    ("retiring-above-the-current", product("format", put("custom", "retiring", 0, "below", to=10), tuf="accepts")),
]  # fmt: skip

CASES = [*GOOD, *RELEASES, *HOSTILE, *FORMS]
