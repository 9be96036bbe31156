"""With the base alone every command works, or says in one line what to install."""

from __future__ import annotations

import json
import re
from pathlib import Path

from unplug.sdk.cli.commands import COMMANDS

from ...blocked import BASE, python, with_only
from ..trust.bundle.test_bundle import make_bundle
from ..trust.bundle.test_generator import make_generator

EXTRA = {name: command.extra for name, command in COMMANDS.items() if command.extra}
WORKING = """
bench baselines
config
bundle keygen key|bundle inspect a.unplug|bundle verify a.unplug
bundle diff a.unplug a.unplug|bundle pack a.unplug --out bundle.zip
bundle sign a.unplug --sign key --out again.unplug
bundle sign files --sign key --out g.unplug|bundle verify g.unplug --trust key.pub
bundle inspect g.unplug|bundle diff files g.unplug|bundle pack g.unplug --out g.zip
ledger role reader
list methods|list erasures|list designs|list tasks|list attacks|list targets|list devices|list conditions
list data|list age-protocols|list backends|list gates|list precisions
"""
DATA = "--data synth:n=12,subjects=6"
REQUEST = f"{DATA} --forget forget.txt --out x"
PICTURE = "--trunk model --image a.png"
NAMED = f"""
init --model model --data csv:a.csv new|status|answer --yes
request add anna|request list|request show r|request withdraw r
demo --out x
data synth --count 4 --out x|data inspect synth:n=4|data split synth:n=4 --out x
data pick-forget model {DATA} --out x
condition a.png --kind canny --out x
train age {DATA} --out x|train classes {DATA} --out x|train base {DATA} --out x|train student {DATA} --out x
train decoder {DATA} --out x|search age {DATA} --out x|detect x.png
train plugin {DATA} --kind canny --out x|train pack {DATA} --word x --out x
adopt torchvision:resnet18 {DATA} --out x
generate --prompt x --out x.png
page
erase small --concept x --out x|forget model {REQUEST} --method msg
head make model --out x|head answer head.json {PICTURE}
head add head.json {PICTURE} --person subject:1 --age 20 --out x
head remove head.json {PICTURE} --person subject:1 --age 20 --out x
certify model {DATA} --fleet model --out x
references model {DATA} --out x
evaluate model {DATA} --out x
audit model {REQUEST}
export model --out x|parity a.onnx --checkpoint model
run a.onnx --image a.png|run model --image a.png|run a.unplug --image a.png
threshold model {DATA} --over 18 --max-fpr 0.01 --out x
bench run a.onnx --out x|bench a.onnx|bench estimate a.onnx --on pixel-3|bench estimate
bench compare audit.json audit.json|bench table audit.json|bench import audit.json --out x
release model {REQUEST}
ledger init|ledger due|ledger list|ledger status r|ledger withdraw r|ledger shred r --yes
ledger checkpoint --out x|ledger export --out x|ledger prove r --out x
ledger extend r --reason why|ledger refuse r --reason why|ledger correct --clock --reason why
ledger add {DATA} --forget forget.txt|ledger queue {DATA} --out x|ledger touch model {DATA}
ledger record answered r
serve run|serve token add x|serve token list|serve token revoke x
trace subject:1 {DATA} --in model
certificate T-1 --bundle a.unplug --sign key --out x
certificate issue T-1 --bundle a.unplug --sign key --out x
certificate templates r --out x
replay a.unplug --state model
report audit.json -o x.html
cache info|cache purge --all --yes
"""
ELSEWHERE = {"bundle push", "certificate verify", "ledger verify"}
"""A phone, a certificate or a key is wanted first."""
CODE = """
import json, os
os.environ["XDG_DATA_HOME"] = os.environ["UNPLUG_CACHE"] = os.getcwd()
import click
from click.testing import CliRunner
from unplug.sdk.cli import main

def leaves(group, words):
    for name in group.list_commands(click.Context(group)):
        try:
            command = group.get_command(click.Context(group), name)
        except ModuleNotFoundError:  # the commands of a file that needs torch at its top
            command = None
        if isinstance(command, click.Group):
            yield from leaves(command, [*words, name])
        else:
            yield " ".join([*words, name])

for line in CALLS:
    done = CliRunner().invoke(main, line.split())
    print(json.dumps([line, done.exit_code, done.stderr]))
print(json.dumps(list(leaves(main, []))))
"""

HELPS = """
import click
from click.testing import CliRunner
from unplug.sdk.cli import main

def told(group, words):
    done = CliRunner().invoke(main, [*words, "--help"])
    if done.exit_code != 0:
        print(words, done.stderr)
    if isinstance(group, click.Group):
        for name in group.list_commands(click.Context(group)):
            told(group.get_command(click.Context(group), name), [*words, name])

told(main, [])
"""


def calls(text: str) -> list[str]:
    return text.strip().replace("\n", "|").split("|")


def test_each_works_or_names_the_one_command_that_installs_what_it_lacks(tmp_path: Path) -> None:
    make_bundle(tmp_path).rename(tmp_path / "a.unplug")
    make_generator(tmp_path / "files")
    for name in ("a.png", "a.onnx", "forget.txt", "head.json", "audit.json"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "model").mkdir()
    toml = '[model]\nname = "a"\noriginal = "model"\ndata = "synth:n=4"\n'
    (tmp_path / "unplug.toml").write_text(toml)
    working = calls(WORKING)
    code = f"{with_only(BASE)}\nCALLS = {working + calls(NAMED)!r}\n{CODE}"
    *told, leaves = map(json.loads, python(code, cwd=tmp_path).splitlines())
    named = r"error: \w+ is not installed: this needs the extra \[(\w+)\]\. Run: .*\[\1\].*\n"
    wrong, extras = {}, set()
    for line, exit_code, stderr in told:
        match = re.fullmatch(named, stderr)
        if exit_code != (0 if line in working else 2) or (match is None) != (line in working):
            wrong[line] = (exit_code, stderr[-300:])
        elif match is not None:
            extras.add((line.split()[0], match[1]))
    assert wrong == {}
    assert EXTRA.items() <= extras, "a command names the extra that COMMANDS has"
    missed = {
        leaf for leaf in leaves if not any(f"{line} ".startswith(f"{leaf} ") for line, *_ in told)
    }
    assert missed <= ELSEWHERE, "a command has a call here"
    assert not (tmp_path / "x").exists()


def test_every_help_is_told_without_torch(tmp_path: Path) -> None:
    assert python(f"import sys\nsys.modules['torch'] = None\n{HELPS}", cwd=tmp_path) == ""
