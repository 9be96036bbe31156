"""``python -m benchmarks.quality_page``: the tables of docs/plugins.md about the base that ships, from the JSON in docs/data.

A test holds the page to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from unplug.core import atomic_path, read_json
from unplug.sdk.studies.words import ATTRIBUTES

from .pages import filled

PAGE = Path("docs/plugins.md")
COLOURS = ("background", "skin", "hair", "clothes")
SAMPLING = ("25 ddim", "6 dpm++", "4 dpm++", "2 dpm++")
AUTOENCODER = "autoencoder"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, first: str = "---") -> str:
    """Markdown; the first column is text, or with ``--:`` a number."""
    lines = [head, [first, *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" if line is not lines[1] else f"|{'|'.join(line)}|" for line in lines)


def listening(found: Mapping[str, Any]) -> str:
    """How far colours follow words, prompts kept, and the Fréchet distance, for every way to draw."""
    best = found["rows"][AUTOENCODER]
    settings = found["settings"]
    ways = [*(name for name in SAMPLING if name in settings), *students(found)]
    rows = [[_way(name), *_heard(settings[name]), *_quality(found["rows"][name], best)] for name in ways]
    kept = f"{100 * best['kept']['all']:.1f} %"
    rows.append(["faces through the autoencoder", *[""] * len(COLOURS), kept, "", f"{best['frechet']:.1f}"])
    return table(["steps", *COLOURS, "prompt kept", "of the autoencoder's", "Fréchet distance"], rows, first="--:")


def attributes(found: Mapping[str, Any]) -> str:
    """What a judge reads as named, attribute by attribute."""
    own = students(found)
    ways = ("source", AUTOENCODER, *SAMPLING, *own)
    kept = {way: found["rows"][way]["kept"] for way in ways}
    rows = [[name, *(f"{100 * kept[way][name]:.0f} %" for way in ways)] for name in kept["source"] if name != "all"]
    head = ["attribute", "real faces", "through the autoencoder", *(f"{_way(way)} steps" for way in SAMPLING), *map(_way, own)]
    return table(head, rows)


def students(found: Mapping[str, Any]) -> list[str]:
    """The ways of students, those of more steps first."""
    return sorted(set(found["settings"]) - {*SAMPLING}, key=lambda name: (-found["settings"][name]["steps"], name))


def steered(found: Mapping[str, Any]) -> str:
    """Landmarks of drawn faces against those of the photographs that steered them, and of others."""
    both = {name: ["{:.3f} ({:.3f} to {:.3f})".format(*row[number]) for number in ("nme", "another")]
            for name, row in found["rows"].items()}  # fmt: skip
    return table(["", "NME of the photograph's face", "of another's"], [[name, *cells] for name, cells in both.items()])


def follow(found: Mapping[str, Any]) -> str:
    """How near the landmarks of drawn faces are to those of the face whose depth steered them, row by row."""

    pictures = found["pictures"]
    rows = [
        [row["row"], "{value:.3f} ({low:.3f} to {high:.3f})".format(**row["nme"]) if row["nme"] else "",
         *(f"{row[share]['value'] * pictures:.0f} of {pictures}" for share in ("nme_8", "found"))]
        for row in found["rows"]
    ]  # fmt: skip
    return table(["", "NME", "under 8 %", "faces found"], rows)


def _way(name: str) -> str:
    return name.split()[0] if name in SAMPLING else name.replace(" ", ", ")


def _heard(one: Mapping[str, Any]) -> list[str]:
    return [f"{one['colours'][ATTRIBUTES[name].prompt]['ratio']:.1f}" for name in COLOURS]


def _quality(row: Mapping[str, Any], best: Mapping[str, Any]) -> list[str]:
    kept, most = row["kept"]["all"], best["kept"]["all"]
    return [f"{100 * kept:.1f} %", f"{100 * kept / most:.0f} %", f"{row['frechet']:.1f}"]


def tables(data: Path) -> dict[str, str]:
    """Each table by the name of its markers."""
    quality = read_json(data / "base-quality.json")
    return {
        "base quality": listening(quality),
        "attributes": attributes(quality),
        "few steps": listening(read_json(data / "few-steps.json")),
        "photographs": steered(read_json(data / "photo-control.json")),
        "depth": follow(read_json(data / "depth-control.json")),
    }


def claims(data: Path) -> list[str]:
    """What the text around the tables says in numbers, as it must stand there."""
    quality = read_json(data / "base-quality.json")
    rows = quality["rows"]
    times = {way: rows[way]["frechet"] / rows[AUTOENCODER]["frechet"] for way in SAMPLING}
    both = quality["settings"]["6 dpm++"]["binding"]
    two = rows["2 dpm++"]["kept"]["all"] / rows[AUTOENCODER]["kept"]["all"]
    return [
        f"which keeps {100 * two:.0f} % of what the autoencoder keeps of a prompt",
        f"at six steps they are {times['6 dpm++']:.1f} times as far from real ones",
        f"at 25 steps {times['25 ddim']:.1f} times",
        f"in {100 * both['first']:.0f} % of pictures at six steps, the clothes in {100 * both['second']:.0f} %",
    ]


def with_tables(text: str, made: Mapping[str, str]) -> str:
    """A page with the tables between their markers, see `filled`."""
    for name, body in made.items():
        text = filled(text, name, f"\n{body}\n\n")
    return text


@click.command()
@click.argument("page", type=click.Path(path_type=Path, dir_okay=False, exists=True), default=PAGE)
def main(page: Path) -> None:
    """Writes the tables into PAGE, between their markers; everything else of it stays."""
    text = with_tables(page.read_text(encoding="utf-8"), tables(page.parent / "data"))
    with atomic_path(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
