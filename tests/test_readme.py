"""The documents say what is true: numbers come from committed JSON, commands, options, files and
names exist, examples run.
"""

from __future__ import annotations

import itertools
import json
import pkgutil
import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
from benchmarks.methods import with_table
from benchmarks.plugin_latency import BUDGETS
from benchmarks.published import study_markdown
from benchmarks.results import TABLE, filled
from benchmarks.studies.__main__ import Studies
from benchmarks.studies.__main__ import main as studies
from benchmarks.studies.recipes import chosen

from unplug.core import VERSION
from unplug.mobile_bench import BenchReport, at_fault, load_baselines
from unplug.sdk.cli import COMMANDS as COMMAND_LINES
from unplug.sdk.cli import main
from unplug.sdk.cli.defaults import TAKES
from unplug.sdk.cli.run_group import RunGroup
from unplug.sdk.forgetting.tasks import AgeTask
from unplug.sdk.forgetting.unlearning import METHODS, Cost, RetrainCost, apply_method
from unplug.sdk.learning.training import ImageSet, Recipe, Sets, new_model

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
METHODS_PAGE = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
RESULTS = sorted((ROOT / "docs/results").glob("*.md"))
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *RESULTS, ROOT / "android_demo/README.md"]
AGENTS, SKILL = ROOT / "AGENTS.md", ROOT / ".agents/skills/unplug/SKILL.md"
STUDIES = "python -m benchmarks.studies "
COMMAND = re.compile(rf"^(?: {{4}})?((?:unplug|{STUDIES.strip()}) [a-z].*)$", re.MULTILINE)
COMMANDS = {
    command: f"{page.relative_to(ROOT)}:{number}: {command}"
    for page in (ROOT / "README.md", SKILL, *PAGES)
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    for command in COMMAND.findall(line)
}
"""Every command of a document, and where it stands."""

IN_PROJECTS = {
    line
    for page in PAGES
    if page.stem in ("story", "project")
    for line in COMMAND.findall(page.read_text(encoding="utf-8"))
}
"""Lines that run where `unplug.toml` says what they leave out."""
DATA = {
    path: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "docs/data").glob("*.json"))
}
MEASURED_ONCE = [
    path for path, facts in DATA.items() if {"command", "commit", "tables"} <= set(facts)
]


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_the_tables_of_a_page_are_those_of_its_files(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert filled(page) == page, f"run: python -m benchmarks.results docs/results/{path.name}"
    for name in {match[2] for match in TABLE.finditer(page)}:
        assert f"(../data/{name}.json)" in page, "the page links the command and the commit"
    prose = [line for line in page.splitlines() if not line.startswith(("|", "<!--", "[", "#"))]
    assert len(" ".join(prose).split()) <= 330, "results are tables; methods stand elsewhere"


@pytest.mark.parametrize("path", MEASURED_ONCE, ids=lambda path: path.stem)
def test_what_was_measured_once_says_how(path: Path) -> None:
    facts = DATA[path]
    assert facts["command"] and re.fullmatch(r"[0-9a-f]{7,40}", facts["commit"])


def test_a_published_study_stands_above_ours_with_its_own_base() -> None:
    ours = ["| a | b |", "|---|--:|", "| plugin | 4 |"]
    head, _, base, controlnet, plugin, last = study_markdown(load_baselines(), ours).splitlines()
    assert (head, last) == ("| a | b |", "| ours: plugin | 4 |")
    assert "Stable Diffusion 1.5 | – | 10.32 | CLIP 0.26 | 5.0, phone 11.5 | 1.00×" in base
    assert "6.51 | CLIP 0.31 | 7.4, phone 18.2 | 1.48×, phone 1.58×" in controlnet
    assert "6.50 | CLIP 0.30 | 5.0, phone 11.8 | 1.00×, phone 1.03×" in plugin


def test_pages_are_few_and_short() -> None:
    words = {path: len(path.read_text(encoding="utf-8").split()) for path in PAGES[:-1]}
    assert len(README.split()) <= 750 and sum(words.values()) + len(README.split()) <= 27_300, words


def test_every_file_of_numbers_is_named_by_a_document_a_benchmark_or_a_test() -> None:
    texts = [
        path.read_text(encoding="utf-8")
        for path in (*PAGES, *(ROOT / "benchmarks").rglob("*.py"), *(ROOT / "tests").rglob("*.py"))
    ]
    for path in (ROOT / "docs/data").iterdir():
        assert any(path.name in text for text in texts), path.name
    assert sum(path.stat().st_size for path in (ROOT / "docs/data").iterdir()) < 600_000


def data_of(name: str) -> Any:
    return DATA[ROOT / "docs/data" / f"{name}.json"]


def test_an_untouched_original_seldom_passes_the_gates() -> None:
    passed, runs = Counter[int](), Counter[int]()
    for row in data_of("gate-calibration")["counts"]:
        if row["candidate"] == "untouched original" and row["way"] == "request alone":
            runs[row["people"]] += row["runs"]
            passed[row["people"]] += row["runs"] * (row["verdict"] == "passes")
    assert runs and all(passed[size] <= 0.05 * runs[size] for size in runs), passed


def test_what_the_committed_runs_must_show() -> None:
    recipes, kills, latency = map(data_of, ("recipes", "release-crashes", "plugin-latency"))
    assert chosen(recipes["rows"]) == recipes["chosen"]
    assert not [row for row in (*kills["walks"], *kills["random"]) if row["wrong"]]
    slow = {name: latency["results"][name]["ratio"] for name in BUDGETS}
    assert all(slow[name] >= least for name, least in BUDGETS.items()), slow


def test_every_file_and_make_target_that_it_names_is_there() -> None:
    guide = AGENTS.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README + guide):
        assert (ROOT / target).is_file(), target
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z-]+)", README + guide, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_the_changelog_begins_with_the_version_of_the_package() -> None:
    first = re.search(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert first is not None and first.group(1) == VERSION


def test_the_citation_is_of_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert {"cff-version: 1.2.0", f"version: {VERSION}", "license: Apache-2.0"} <= {*lines}


def test_what_agents_read_is_short_and_names_what_is_there() -> None:
    skill, guide = SKILL.read_text(encoding="utf-8"), AGENTS.read_text(encoding="utf-8")
    assert len(skill.split()) < 500 and len(guide.split()) < 350
    assert re.match(rf"---\nname: {SKILL.parent.name}\ndescription: .{{1,1024}}\n---\n", skill)
    named = re.findall(r"`(unplug [a-z ]+)`", skill)
    assert named
    for line in named:
        words, command = line.split()[1:], main
        for word in words:
            assert isinstance(command, click.Group), line
            found = command.get_command(click.Context(command), word)
            assert found is not None, line
            command = found
    for path in re.findall(
        r"`((?:tests|docs|sdk|benchmarks|android_demo|ios_demo)[\w/.]*)`", guide
    ):
        assert (ROOT / path).exists(), path


def test_nothing_that_is_committed_names_a_download_address_for_packages() -> None:
    assert not re.search(r"://|@ ", (ROOT / "constraints.txt").read_text(encoding="utf-8"))


def test_every_command_takes_what_a_document_gives_it() -> None:
    """Words are parsed and not run: unknown commands, options and choices fail. All but the demo,
    which make runs, appear.
    """
    for line, place in COMMANDS.items():
        group, rest = (
            (studies, line.removeprefix(STUDIES))
            if line.startswith(STUDIES)
            else (main, line.removeprefix("unplug "))
        )
        words = shlex.split(rest, comments=True)
        try:
            parse(group, words, line)
        except (AssertionError, click.UsageError) as error:
            pytest.fail(f"{place}\n{error}")
        given = dict(itertools.pairwise(words))
        named = given.get("--methods", given.get("--method", "msg")).split(",")
        assert {name.partition("@")[0] for name in named} <= {*METHODS, "shrink", "all"}, line
    said = {line.removeprefix(STUDIES).removeprefix("unplug ").split()[0] for line in COMMANDS}
    assert {*COMMAND_LINES, *Studies.table} - said == {"demo"}, "commands in no document"


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_people_who_installed_it_can_follow_in_an_empty_folder(page: str) -> None:
    """Every file that a command reads was written by one before it: nothing lies only in a
    checkout.
    """
    made: set[str] = set()
    for line in COMMAND.findall((ROOT / page).read_text(encoding="utf-8")):
        words = shlex.split(line, comments=True)[1:]
        made |= {"forget.txt"} if page.endswith("quickstart.md") else set()  # by echo
        out = {word for option, word in itertools.pairwise(words) if option in ("-o", "--out")}
        read = {
            word.removeprefix("csv:")
            for word in words
            if re.search(r"\.(png|jpg|json|txt|csv|onnx|tflite|unplug)$", word)
        }
        for word in read - out:
            assert made & {word, *map(str, Path(word).parents)}, f"{word} is from nowhere: {line}"
        made |= out
    assert len(made) > 1


def parse(command: click.Command, words: list[str], line: str) -> None:
    """Down to the command that the words name."""
    path: list[str] = []
    while isinstance(command, click.Group):
        if isinstance(command, RunGroup) and (not words or words[0] not in command.commands):
            words = ["run", *words]
        name, named, words = command.resolve_command(click.Context(command), words)
        assert named is not None, line
        command, path = named, [*path, str(name)]
    known = {
        name
        for option in command.get_params(click.Context(command))
        for name in (*option.opts, *option.secondary_opts)
    }
    assert {word for word in words if word.startswith("-")} <= known, line
    taken = TAKES.get(" ".join(path), ()) if line in IN_PROJECTS else ()
    said: dict[str, Any] = {"on_bad": "skip", "folders": ["x"], "trusted": ["x"]}
    told = {name: said.get(name, "x") for name in taken}
    command.make_context(line, list(words), default_map=told)


def examples(page: str) -> list[str]:
    """The blocks of Python of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.long
def test_the_python_of_the_readme_ends_in_true(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = examples("README.md")
    exec(compile(code, "README.md", "exec", dont_inherit=True), {})
    assert capsys.readouterr().out.splitlines()[-1] == "True"


@pytest.mark.long
def test_the_python_on_forgetting_walks_the_whole_journey(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = examples("docs/forget.md")
    exec(compile(code, "docs/forget.md", "exec", dont_inherit=True), {})
    share, age = (float(line.split()[0]) for line in capsys.readouterr().out.splitlines())
    assert 0 < share <= 0.6 and 0 < age < 122
    assert all(
        row["status"] == "pass" for row in json.loads(Path("parity.json").read_text())["rows"]
    )
    assert not [row for row in BenchReport.load(Path("bench.json")).rows if at_fault(row)]
    names = {model["name"] for model in json.loads(Path("audit.json").read_text())["models"]}
    assert names == {"original", "unlearned", "retrained", "age.fp32.onnx"}
    assert "<svg" in Path("report.html").read_text()


def test_the_table_of_methods_is_that_of_the_registry() -> None:
    assert with_table(METHODS_PAGE) == METHODS_PAGE, (
        "run: python -m benchmarks.methods docs/methods.md"
    )


def test_every_entry_point_group_is_documented_with_its_contract() -> None:
    sources = [
        path
        for folder in ("plugins", "export", "mobile_bench", "sdk", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    ]
    groups = {
        name
        for path in sources
        for name in re.findall(r'group="(unplug\.\w+)"', path.read_text(encoding="utf-8"))
    }
    rows = re.findall(r"^\| `(unplug\.\w+)` \|.*\| `([\w.]+)` \|$", GUIDE, re.MULTILINE)
    assert groups == {group for group, _ in rows}
    assert all(pkgutil.resolve_name(contract).__doc__ for _, contract in rows)


def test_the_example_of_a_method_unlearns() -> None:
    """From the guide's own text: the class is registered as the guide says, and it sees, changes
    and pays for what it should.
    """
    code, entry = (
        re.search(rf"```{kind}\n(.*?)```", GUIDE, re.DOTALL) for kind in ("python", "toml")
    )
    assert code is not None and entry is not None
    points = tomllib.loads(entry.group(1))["project"]["entry-points"]["unplug.methods"]
    scope: dict[str, Any] = {"__name__": "yourpackage.shrink"}
    exec(compile(code.group(1), "CONTRIBUTING.md", "exec", dont_inherit=True), scope)
    shrink = scope[points["shrink"].partition(":")[2]]()
    recipe = Recipe(size="nano", image_size=32, epochs=2, batch_size=8, augment="none")
    task = AgeTask(recipe=recipe, edges=(0.0, 30.0, 60.0))
    retain, forget, none = (random_set(count) for count in (12, 4, 0))
    original = new_model(task, retain, 0)
    whole = RetrainCost(cost=Cost(forward=24, backward=24, wall_s=1e6), source="test")
    sets = Sets(train=retain, forget=forget, validation=none, test=none)
    model, cost = apply_method(shrink, original, sets, task, whole, 0.7, seed=0)
    assert 12 <= cost.forward == cost.backward <= 0.7 * 24
    before, after = (
        float(next(iter(item.parameters())).detach().norm()) for item in (original, model)
    )
    assert 0.7 < after / before < 0.95, "it was shrunk to 0.8, and moved little since"


def random_set(count: int) -> ImageSet:
    """Random pictures of people of 20 and 40."""
    age_N = torch.tensor([20.0, 40.0] * (count // 2))
    pixels_NCHW = torch.randint(
        0,
        256,
        (count, 3, 32, 32),
        generator=torch.Generator().manual_seed(count),
        dtype=torch.uint8,
    )
    return ImageSet(
        ids=tuple(f"{count}-{number}" for number in range(count)),
        age_N=age_N,
        group_N=(age_N > 30).long(),
        image_NCHW=pixels_NCHW.to(memory_format=torch.channels_last),
        subject_N=np.arange(count),
    )
