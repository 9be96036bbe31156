"""The page says what the certificate says, in two parts that print on a sheet each, whatever stands
in it.
"""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from unplug.trust.certificates import Certificate, certificate_html

from .conftest import REQUEST, Case

KEY = "0f" * 32


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {name for name, _ in attrs} & {"src", "href", "onclick"}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_holds_every_number_and_no_address(made: Case) -> None:
    said = made.issued.certificate
    page = certificate_html(said, KEY)
    read = _Tags()
    read.feed(page)
    for text in (
        REQUEST,
        said.model.bundle,
        said.model.checkpoint_sha256,
        KEY,
        "Example Ltd",
        *(line.place for line in said.places),
    ):
        assert text in read.text, text
    for line in said.evidence.attacks:
        assert (
            line.attack in read.text
            and f"{line.model.value:.3f}" in read.text
            and f"{line.never_saw.value:.3f}" in read.text
        )
    assert all(line in read.text for line in said.not_claimed) and "legal advice" in read.text
    assert "script" not in read.tags and "http" not in page.replace("http-equiv", "")


def test_text_of_strangers_is_shown_and_not_obeyed(made: Case) -> None:
    said = replace(made.issued.certificate, issuer="<img src=x onerror=alert(1)> & <b>Ltd</b>")
    assert "<img" not in certificate_html(said, KEY) and "&lt;img" in certificate_html(said, KEY)


def crowded(said: Certificate) -> Certificate:
    """Eight attacks, thirty gates, forty files, long reasons."""
    evidence = said.evidence
    attacks = tuple(replace(evidence.attacks[0], attack=f"attack-{number}") for number in range(8))
    gates = tuple(
        replace(evidence.gates[0], name=f"not over-forgotten ({number})", unit="u" * 90)
        for number in range(30)
    )
    files = tuple(
        replace(said.model.files[0], name=f"artifacts/{'x' * 90}{number}.tflite")
        for number in range(40)
    )
    places = tuple(replace(line, why="reason " * 28) for line in said.places)
    return replace(
        said,
        places=places,
        model=replace(said.model, files=files),
        evidence=replace(
            evidence, attacks=attacks, gates=gates, too_few="few " * 70, alarms=("alarm " * 40,) * 3
        ),
    )


def test_two_parts_whatever_stands_in_them(made: Case) -> None:
    for said in (made.issued.certificate, crowded(made.issued.certificate)):
        assert certificate_html(said, KEY).count("<main>") == 2
