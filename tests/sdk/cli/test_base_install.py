"""Every command of the tree without any extra: it works, or names the extra and its pip command in
one line.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from unplug.core.extras import OWNER
from unplug.sdk.releasing import Release

from ..conftest import World

CHILD = """
import json, sys
from pathlib import Path

class Finder:  # as if what the extras bring were not installed
    def __init__(self, real):
        self.real = real

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in BLOCKED else self.real.find_spec(name, path, target)

    def __getattr__(self, name):
        return getattr(self.real, name)

BLOCKED, calls = json.loads(sys.stdin.read())
sys.meta_path[:] = map(Finder, sys.meta_path)
import click
from click.testing import CliRunner
from unplug.sdk.cli import main

def leaves(group, words, context):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        inner = click.Context(command, parent=context, info_name=name)
        if isinstance(command, click.Group):
            yield from leaves(command, [*words, name], inner)
        else:
            yield " ".join([*words, name])

said = []
for words in calls:
    done = CliRunner().invoke(main, words)
    said.append([words, done.exit_code, done.stderr.strip().splitlines()])
tree = []
for name in main.list_commands(click.Context(main)):
    try:
        command = main.get_command(click.Context(main), name)
    except ModuleNotFoundError:  # the commands of a file that needs torch at its top
        tree.append(name)
        continue
    context = click.Context(command, info_name=name)
    tree += leaves(command, [name], context) if isinstance(command, click.Group) else [name]
print(json.dumps([said, tree, sorted({*BLOCKED} & sys.modules.keys())]))
"""
EXTRA = re.compile(
    r'error: \S+ is not installed: this needs the extra \[(\w+)\]\. Run: .*install .*\[\1\]"\.'
)

WORKING = """
bench baselines
bundle keygen {out}/key|bundle inspect {bundle}|bundle verify {bundle}|bundle diff {bundle} {bundle}
bundle pack {bundle} --out {out}/bundle.zip
bundle sign {bundle} --key {out}/key --out {out}/signed.unplug
ledger role reader|list precisions
"""
NAMED = """
demo --out {out}/demo
data synth --n 4 --out {out}/faces|data inspect synth:n=4
data pick-forget {checkpoint} --data csv:{faces}/labels.csv --out {out}/forget.txt
condition {faces} --kind canny --out {out}/condition
train age --data synth:n=4 --out {out}/a|train base --data synth:n=4 --out {out}/a
train plugin --data synth:n=4 --kind canny --out {out}/a|train student --data synth:n=4 --out {out}/a
adopt timm:resnet18 --data synth:n=4 --out {out}/a
generate --prompt face --out {out}/a.png
forget {checkpoint} --data synth:n=4 --forget {forget} --out {out}/a
head make {checkpoint} --out {out}/a
head add {head} --trunk {file} --image {face} --name x --age 9 --out {out}/a
head remove {head} --trunk {file} --image {face} --name x --age 9 --out {out}/a
head answer {head} --trunk {file} --image {face}
certify {checkpoint} --data synth:n=4 --fleet {out} --out {out}/a
references {checkpoint} --data synth:n=4 --out {out}/a
evaluate {checkpoint} --data csv:{faces}/labels.csv|evaluate {file} --data csv:{faces}/labels.csv
audit {checkpoint} --data synth:n=4 --forget {forget} --out {out}/a
export {checkpoint} --out {out}/a|parity {file} --checkpoint {checkpoint}
run {file} --image {face}|run {checkpoint} --image {face}|run {bundle} --image {face}
threshold {checkpoint} --data csv:{faces}/labels.csv --over 18 --max-fpr 0.1
bench run {file} --out {out}/a|bench run {file} --on web --out {out}/a|bench estimate {file} --device pixel-3
release {checkpoint} --data synth:n=4 --forget {forget} --out {out}/a
ledger init|ledger due|ledger list|ledger status r|ledger withdraw r|ledger shred r --yes
ledger checkpoint --out {out}/a|ledger export --out {out}/a|ledger extend r --reason why|ledger refuse r --reason why
ledger add --data csv:{faces}/labels.csv --forget {forget}|ledger prove r --out {out}/a
ledger queue --data synth:n=4 --out {out}/a
ledger record answered r|ledger correct --clock --reason why|ledger touch {checkpoint} --data synth:n=4
serve run|serve token add x|serve token list|serve token revoke x
certificate templates r --out {out}/a
list methods|list designs|list tasks|list attacks|list targets|list devices
list conditions|list data|list age-protocols|list backends
cache info|cache purge --all --yes
data inspect csv:{faces}/labels.csv
data split csv:{faces}/labels.csv --out {out}/split.json
bench compare {bench} {bench}|bench table {bench}|bench import {bench} --out {out}/bench.json
bench estimate --list
report {audit} {parity} {bench} {release} --out {out}/report.html
report {checkpoint}/unplug.json --out {out}/record.html
page --trust {out}/key.pub --out {out}/page
trace subject:s0 --data csv:{faces}/labels.csv --in {checkpoint}
"""
REFUSED = {"certificate issue", "certificate verify", "ledger verify", "bundle push"}
"""Which want more than a test of imports has at hand: a ledger and its key, a phone."""


def calls(text: str, places: dict[str, object]) -> list[list[str]]:
    return [line.format(**places).split() for line in text.replace("|", "\n").split("\n") if line]


@pytest.fixture(scope="module")
def places(
    world: World, released: Release, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, object]:
    from PIL import Image

    out, faces = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("faces")
    rows = ["path,age,subject"]
    for number in range(30):
        Image.new("RGB", (40, 40), (8 * number, 40, 90)).save(faces / f"{number}.png")
        rows.append(f"{number}.png,{20 + number},s{number // 3}")
    (faces / "forget.txt").write_text("subject:s0\n")
    (faces / "labels.csv").write_text("\n".join(rows) + "\n")
    (out / "head.safetensors").write_bytes(b"8")
    work = released.bundle.parent / "work"
    artifact = next((released.bundle / "artifacts").glob("*.tflite"))
    found = {
        "out": out,
        "faces": faces,
        "face": faces / "1.png",
        "head": out / "head.safetensors",
        "file": artifact,
    }
    found |= {
        "bundle": released.bundle,
        "checkpoint": world.original.path,
        "forget": faces / "forget.txt",
    }
    return found | {name: work / f"{name}.json" for name in ("audit", "parity", "bench", "release")}


@pytest.mark.long
def test_every_command_works_or_names_its_extra(places: dict[str, object]) -> None:
    working, named = calls(WORKING, places), calls(NAMED, places)
    out = str(places["out"])
    home = {"HOME": out, "XDG_DATA_HOME": out, "UNPLUG_CACHE": out}
    words, asked = [sys.executable, "-c", CHILD], json.dumps([sorted(OWNER), working + named])
    done = subprocess.run(
        words,
        input=asked,
        capture_output=True,
        text=True,
        env=os.environ | home,
        cwd=out,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    said, tree, loaded = json.loads(done.stdout)
    assert loaded == []
    for words, code, lines in said:
        if words in working:
            assert code == 0, (words, lines)
        else:
            assert code == 2 and len(lines) == 1 and EXTRA.fullmatch(lines[0]), (words, code, lines)
    called = {" ".join(words) for words, _, _ in said}
    missed = [
        name for name in tree if not any(f"{words} ".startswith(f"{name} ") for words in called)
    ]
    assert REFUSED.issuperset(missed), missed
    assert not Path(out, "a").exists()
