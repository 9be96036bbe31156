"""The page: the numbers of the files are on it, nothing of the files runs, nothing is loaded, and
it is well formed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from unplug.core import OutputError, ReportError
from unplug.sdk.report import collect, render_html, write_report

from .conftest import Draw, Json, Write

VOID = {"meta", "img", "br", "link", "input", "hr"}


def text_of(html: str) -> str:
    """What a reader sees, with spaces made plain."""
    return re.sub(
        r"\s+", " ", re.sub(r"<[^>]+>", " ", html.split("</style>", 1)[1]).replace("\xa0", " ")
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "fact",
    [
        "The title",
        "synth:n=140",
        "forget set of 30 samples of 9 subjects",
        "fell from 0.812 (0.751 to 0.873) in the original to 0.553 (0.492 to 0.614) in the "
        "unlearned model",
        "the retrained oracle has 0.532 (0.471 to 0.593)",
        "from 6.50 to 6.52 years (+0.02); the oracle has 6.40",
        "Forgetting by msg took 3.4 % of the compute of retraining and 3.5 % of its wall time; the "
        "budget is 5.0 %",
        "test error rose",  # the alarm
        "0.812 → 0.553",
        "+0.021 −0.020 to +0.062",
        "2.35 years on the forget set; 2.30 to 2.40",
        "1 of 2 gates do not hold, so nothing ships. Not measured: 1.",
        "utility pass 0.125 ≤ 1 years test MAE",
        "parity fail not measured ≥ 1",
        "unlearned 0.553 (0.492 to 0.614)",  # legend of the ROC
        "forget set (30)",
        "too few samples",
        "58.7 %",
        "23.4 %",
        "2 reference models that never saw the forget set, trained with other seeds, have AUC "
        "0.511 to 0.541",
        "61.3 % 56.3 to 66.3",
        "litert fp16 age.fp16.tflite, 66696c650000 148 kB",
        "expected_age 71.9 (≥ 60); age_logits",
        "no runtime here",
        "41 of 43 in 2 XNNPACK",
        "age: 0.29 M parameters, 0.003 GMAC a run",
        "0.547 0.486 to 0.608",
        "host: Test Machine 9",
        "1.27 1.21 to 1.31",
        "Taken on the host, not on a phone",
        "unlearned, msg 137 137 2.1 s 3.4 % 3.5 % within 5.0 %",
        "How the wall time of retraining is known: measured beside it.",
        "export 7.5 s 75.0 %",
        "abcdef123456",
        "train 2, validation 1, test 1, forget 1; subjects kept apart",
        "30.4",
        "41.7",
        "Quantization brought nothing back: it kept 99 % (98 to 100 %) of the edit",
        "After export (litert fp16): Quantization brought nothing back",
        "Edit left after export 99.1 %",
        "this file 33.7 % of 274,036; by tensor 12 % to 87 % 3.31",
        "s file 94.8 % 4.42",
        "a note on the file",
        "original 0.652 0.602 to 0.702",
        "unlearned 0.641 0.591 to 0.691 −0.011 −0.031 to +0.009 +0.008 −0.012 to +0.028 alike",
        "0.764 3 samples, worst of 9 subjects 1.83 0.71 to 3.14 no",
        "672 641 to 703 640, 704",
        "The threat model of this audit",
        "the file and a picture, not its label not tested entropy: not part of this audit",
    ],
)
def test_the_page_states(page: str, fact: str) -> None:
    assert fact in text_of(page)


@pytest.mark.long
def test_hostile_text_stays_text(write: Write, parts: dict[str, Json]) -> None:
    attack = (
        '{{ 7 * 7 }}"><script>alert(1)</script><img src=x '
        "onerror='alert(1)'>]]>-->$\\frac{$\x07\u202e%s"
    )
    audit, bench, release = parts["audit"], parts["bench"], parts["release"]
    for model in audit["models"]:
        model["name"] = attack
        model["attacks"] = {"loss": model["attacks"]["loss"], attack: model["attacks"]["rmia"]}
        model["utility"]["test"]["per_group"][0]["ages"] = attack
    audit["data"] = {"spec": attack, attack: attack}
    audit["skipped"] = {attack: attack}
    audit["versions"] = {attack: attack}
    audit["alarms"][0] |= {"model": attack, "message": attack}
    bench["rows"][0] |= {
        "device": attack,
        "target": attack,
        "precision": attack,
        "delegate_got": attack,
        "reasons": [attack],
    }
    release["title"] = release["gates"][0]["name"] = release["gates"][0]["detail"] = attack
    release["seconds"] = {attack: 1.0}
    parts["unlearned/unplug"]["forget"]["method"] = attack
    html = render_html(collect(write(**parts)), title=attack)
    assert "<script" not in html
    assert "<img src=x" not in html
    assert "49" not in re.findall(r"<h1>(.*?)</h1>", html)[0]
    check_structure(html)


class Structure(HTMLParser):
    """Open and closed tags, ids, and every attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_structure(html: str) -> Structure:
    """Balanced tags, unique ids that every reference finds, plots that are XML, and no address
    outside.
    """
    structure = Structure()
    structure.feed(html)
    assert structure.open == []
    assert len(structure.ids) == len(set(structure.ids))
    for tag, name, value in structure.attributes:
        assert not name.startswith("on"), (tag, name)
        if name in ("src", "href", "srcset", "data", "action"):
            assert value.startswith("data:image/png;base64,") or (
                value[0] == "#" and value[1:] in structure.ids
            ), (tag, name, value)
        for target in re.findall(r"url\(([^)]*)\)", value):
            assert target[0] == "#" and target[1:] in structure.ids
    assert "@import" not in html
    # a namespace, not a load
    assert set(re.findall(r"https?://[^\"<\s]*", html)) <= {"http://www.w3.org/2000/svg"}
    plots = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert plots
    for plot in plots:
        root = ElementTree.fromstring(plot)
        assert len(root.attrib["aria-label"]) > 20
        assert root.attrib["role"] == "img"
        # all colours come from the style sheet
        assert not set(re.findall(r"#[0-9a-f]{6}\b", plot)) & {
            "#000000",
            "#010203",
        }
    return structure


def test_the_page_is_well_formed_and_loads_nothing(page: str) -> None:
    structure = check_structure(page)
    assert "default-src 'none'" in page
    assert sum(name == "scope" for _, name, _ in structure.attributes) > 50
    assert {"alt", "src"} <= {
        name for tag, name, value in structure.attributes if tag == "img" and value
    }
    assert page.count("<caption>") == page.count("<table")
    assert len(page.encode()) < 600_000


@pytest.mark.long
def test_same_files_same_bytes(write: Write, parts: dict[str, Json], tmp_path: Path) -> None:
    paths = write(audit=parts["audit"], faces=parts["faces"])
    first = render_html(collect(paths), title="t")
    code = (
        "import sys; from unplug.sdk.report import write_report; write_report(sys.argv[2:], "
        "sys.argv[1], title='t')"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "o.html"), *map(str, paths)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    assert (tmp_path / "o.html").read_text(encoding="utf-8") == first


def test_missing_parts_are_listed(draw: Draw, parts: dict[str, Json], page: str) -> None:
    assert "Not in this report" not in page
    html = draw(release=parts["release"])
    missing = html.split("Not in this report", 1)[1].split("</section>", 1)[0]
    for part in (
        "Learning curves",
        "Loss histograms",
        "Attacks",
        "Utility",
        "Sample faces",
        "Artifacts",
        "Latency",
    ):
        assert f"<b>{part}</b>" in missing
    assert "Not audited" in html
    assert 'id="gates"' in html and 'id="utility"' not in html


@pytest.mark.long
def test_an_audit_of_an_older_version_is_still_drawn(draw: Draw, parts: dict[str, Json]) -> None:
    old = parts["audit"]
    old.pop("rounding")
    for model in old["models"]:
        for name in (
            "logistic_accuracy",
            "worst_subject",
            "retain_privacy",
            "relearning",
            "people",
        ):
            model.pop(name, None)
    html = draw(audit=old)
    missing = html.split("Not in this report", 1)[1].split("</section>", 1)[0]
    assert "<b>Rounding</b>" in missing and "<b>Privacy beyond the attacks</b>" in missing
    assert "fell from 0.812" in text_of(html)


@pytest.mark.long
def test_a_file_that_was_not_run_shows_its_codes_alone(draw: Draw, parts: dict[str, Json]) -> None:
    row = parts["audit"]["rounding"][0]
    row |= {
        "target": "coreml",
        "distance": {},
        "retrained": {},
        "kept": None,
        "minus_retrained": None,
        "auc_shift": {},
    }
    text = text_of(draw(audit=parts["audit"]))
    assert "only its stored numbers were compared" in text
    assert "nothing back" not in text and "After export (" not in text


def test_write_report_is_atomic(write: Write, parts: dict[str, Json], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    write_report(write(release=parts["release"]), out)
    before = out.read_bytes()
    with pytest.raises(ReportError):
        write_report(write(release={**parts["release"], "passed": True}), out)
    assert out.read_bytes() == before
    with pytest.raises(OutputError):
        write_report(write(release=parts["release"]), Path("/proc/none/page.html"))


def test_a_page_over_the_limit_is_refused(
    draw: Draw, parts: dict[str, Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unplug.sdk.report.render.MAX_PAGE_BYTES", 1000)
    with pytest.raises(ReportError, match="fewer"):
        draw(release=parts["release"])


@pytest.mark.parametrize("name", ["bench", "parity", "card", "faces", "unlearned/unplug"])
def test_each_kind_alone_makes_a_page(draw: Draw, parts: dict[str, Json], name: str) -> None:
    assert "Provenance" in draw(**{name: parts[name]})
