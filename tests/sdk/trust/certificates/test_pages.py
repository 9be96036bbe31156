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
    certificate = made.issued.certificate
    page = certificate_html(certificate, KEY)
    read = _Tags()
    read.feed(page)
    model = certificate.model
    texts = [REQUEST, model.bundle, model.checkpoint_sha256, KEY, "Example Ltd", "legal advice"]
    texts += [line.place for line in certificate.places] + [*certificate.not_claimed]
    for line in certificate.evidence.attacks:
        texts += [line.attack, f"{line.model.value:.3f}", f"{line.never_saw.value:.3f}"]
    assert [text for text in texts if text not in read.text] == []
    assert "script" not in read.tags and "http" not in page.replace("http-equiv", "")


def test_text_of_strangers_is_shown_and_not_obeyed(made: Case) -> None:
    odd = replace(made.issued.certificate, issuer="<img src=x onerror=alert(1)> & <b>Ltd</b>")
    page = certificate_html(odd, KEY)
    assert "<img" not in page and "&lt;img" in page


def crowded(whole: Certificate) -> Certificate:
    """Eight attacks, thirty gates, forty files, long reasons."""
    evidence, attack = whole.evidence, whole.evidence.attacks[0]
    gate, file = evidence.gates[0], whole.model.files[0]
    return replace(
        whole,
        places=tuple(replace(line, why="reason " * 28) for line in whole.places),
        model=replace(
            whole.model,
            files=tuple(
                replace(file, name=f"artifacts/{'x' * 90}{number}.tflite") for number in range(40)
            ),
        ),
        evidence=replace(
            evidence,
            attacks=tuple(replace(attack, attack=f"attack-{number}") for number in range(8)),
            gates=tuple(
                replace(gate, name=f"not over-forgotten ({number})", unit="u" * 90)
                for number in range(30)
            ),
            too_few="few " * 70,
            alarms=("alarm " * 40,) * 3,
        ),
    )


def test_two_parts_whatever_stands_in_them(made: Case) -> None:
    for whole in (made.issued.certificate, crowded(made.issued.certificate)):
        assert certificate_html(whole, KEY).count("<main>") == 2
