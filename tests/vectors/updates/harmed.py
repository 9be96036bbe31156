"""Update metadata harmed at random, before it was signed by the keys that count or after; made with nothing of its reader.

What was harmed before it was signed is listed as it is: it stands behind every check of a size, a hash or a signature.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.mutations import TEXTS, changed, harms, written

from .cases import SECOND, Case
from .make import bundle, coded, seen
from .recipe import NOW, Change, Keys, Part, Root, World, canonical, sign

SEEN = World()
TOKENS = '0123456789-+eE.,:[]{}"\\/u \n\ttruefalsn\u00e9\ud7ff'
"""What text is harmed with: most of it stays JSON, of another spelling."""
ROLES = ("trusted root", "root", "timestamp", "snapshot", "targets")


@dataclass(frozen=True, kw_only=True)
class Harmed:
    """One set.

    Args:
        what: was done.
        root: the bytes of the root that the reader trusts.
        files: all others by name, and that one.
        seen: whether the reader was there before.
    """

    what: str
    root: bytes
    files: dict[str, bytes]
    seen: bool

    def case(self, verdict: str, answer: dict[str, Any] | None) -> dict[str, Any]:
        """In the form of the corpus, with the verdict that a reader gave."""
        value: dict[str, Any] = {
            "what": self.what, "verdict": verdict, "now": NOW, "root": coded(self.root), "pad": {},
            "files": {name: coded(raw) for name, raw in self.files.items()},
            "seen": seen(SEEN) if self.seen else None, "bundle": CLAIM,
        }  # fmt: skip
        return value if answer is None else {**value, "answer": answer}


CLAIM = bundle(Case(verdict="valid"))


def signed_text(text: bytes, by: tuple[str, ...]) -> bytes:
    """A file around the text of a body, signed as whoever reads that text would spell it."""
    try:
        message = canonical(json.loads(text))
    except Exception:  # noqa: BLE001 (no JSON, or none that can be spelled: the reader must not get as far as the signature)
        message = text
    signatures = json.dumps([sign(name, message) for name in by]).encode()
    return b'{"signatures":' + signatures + b',"signed":' + text + b"}"


def _typed(draw: random.Random, raw: bytes) -> bytes:
    """A text with some characters replaced or put in."""
    text = raw.decode()
    for _ in range(draw.randint(1, 3)):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.choice(TOKENS) + text[at + draw.randint(0, 1) :]
    return text.encode()


def _body(draw: random.Random, by: tuple[str, ...]) -> Change:
    """Values in what is signed, before it is signed."""

    def change(raw: bytes) -> bytes:
        body = json.loads(raw)["signed"]
        for at, harm in draw.sample([*harms(body)], draw.choice((1, 1, 1, 2))):
            try:
                body = changed(body, at, harm)
            except (KeyError, TypeError, AttributeError, IndexError, ValueError):  # the first left nothing for the second
                break
        return signed_text(written(body), by)

    return change


def _text(draw: random.Random, by: tuple[str, ...]) -> Change:
    """Characters in what is signed, before it is signed."""
    return lambda raw: signed_text(_typed(draw, canonical(json.loads(raw)["signed"])), by)


def _whole(draw: random.Random, _: tuple[str, ...]) -> Change:
    """Signatures and body, after it was signed and before it is listed."""

    def change(raw: bytes) -> bytes:
        value = json.loads(raw)
        at, harm = draw.choice([(at, harm) for at, harm in harms(value) if at[:1] != ("signed",)])
        return written(changed(value, at, harm))

    return change


def _file(draw: random.Random, _: tuple[str, ...]) -> Change:
    """The file as a whole, before it is listed."""
    harm = draw.choice(TEXTS)
    return lambda raw: harm(raw)


def _bytes(draw: random.Random, files: dict[str, bytes]) -> None:
    """Bytes and names of what is sent."""
    for _ in range(draw.randint(1, 3)):
        if not files:
            return
        name = draw.choice(sorted(files))
        raw = bytearray(files[name] or b"\0")
        at = draw.randrange(len(raw))
        match draw.randrange(6):
            case 0 | 1:
                raw[at] ^= draw.randint(1, 255)
                files[name] = bytes(raw)
            case 2:
                files[name] = bytes(raw[:at])
            case 3:
                files[name] = bytes(raw[:at]) + draw.randbytes(draw.randint(1, 40)) + bytes(raw[at:])
            case 4:
                files[draw.choice((*sorted(files), "3.root.json", "6.timestamp.json", "1.targets.json"))] = files.pop(name)
            case _:
                files.pop(name)


BEFORE: dict[str, Callable[[random.Random, tuple[str, ...]], Change]] = {
    "values signed": _body, "text signed": _text, "signatures": _whole, "file": _file,
}  # fmt: skip
SENT = "bytes sent"
KINDS = (*BEFORE, SENT)
SHARES = ("values signed",) * 4 + ("text signed",) * 2 + ("signatures", "file", SENT, SENT)


def harmed_sets(count: int, seed: int) -> Iterator[Harmed]:
    """So many sets, the same for the same seed."""
    draw = random.Random(seed)
    for _ in range(count):
        kind, role, again = draw.choice(SHARES), draw.choice(ROLES), draw.random() < 0.5
        second = role == "root" or draw.random() < 0.3
        keys = SECOND if second else Keys()
        world = World(roots=(Root(), Root(keys=SECOND)) if second else (Root(),))
        if kind != SENT:
            world = _harm(world, role, BEFORE[kind], draw, keys)
        files = world.files()
        root = files["1.root.json"]
        if kind == SENT:
            _bytes(draw, files)
            root = files.get("1.root.json", root)
        yield Harmed(what=f"{kind}, {role if kind != SENT else 'any'}", root=root, files=files, seen=again)


def _harm(
    world: World, role: str, how: Callable[[random.Random, tuple[str, ...]], Change], draw: random.Random, keys: Keys
) -> World:  # fmt: skip
    if role == "trusted root":
        first = Root(part=Part(raw=how(draw, Keys().root[:2])))
        return replace(world, roots=(first, *world.roots[1:]))
    if role == "root":
        both = tuple(dict.fromkeys((*Keys().root[:2], *SECOND.root[:2])))
        return replace(world, roots=(world.roots[0], Root(keys=SECOND, part=Part(raw=how(draw, both)))))
    parts: dict[str, Any] = {role: Part(raw=how(draw, getattr(keys, role)))}
    return replace(world, **parts)
