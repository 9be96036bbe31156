"""With the base alone every command works, or says in one line what to install."""

from __future__ import annotations

import json
import re
from pathlib import Path

from unplug.sdk.cli.commands import COMMANDS

from ...blocked import BASE, python, with_only

EXTRA = {name: command.extra for name, command in COMMANDS.items() if command.extra}
DATA = "synth:n=12,subjects=6"
CALLS = {
    "demo": "--out x",
    "data": f"inspect {DATA}",
    "condition": "a.png --kind canny --out x",
    "train": f"age --data {DATA} --out x",
    "adopt": f"torchvision:resnet18 --data {DATA} --out x",
    "generate": "--prompt x --out x.png",
    "page": "",
    "forget": f"model --data {DATA} --forget forget.txt --method msg --out x",
    "head": "add head.json --trunk model --image a.png --name subject:1 --age 20 --out x",
    "certify": f"model --data {DATA} --out x",
    "references": f"{DATA} --out x",
    "evaluate": f"model --data {DATA} --out x",
    "audit": f"model --data {DATA} --forget forget.txt --out x",
    "export": "model --out x",
    "parity": "a.onnx --checkpoint model --out x",
    "run": "a.onnx --image a.png",
    "threshold": f"model --data {DATA} --over 18 --max-fpr 0.01 --out x",
    "bench": "run a.onnx --out x",
    "release": f"model --data {DATA} --forget forget.txt --out x",
    "ledger": "list",
    "serve": "",
    "trace": f"subject:1 --data {DATA}",
    "certificate": "issue T-1 --bundle x --sign key --out x",
    "report": "audit.json -o x.html",
    "list": "methods",
}
CODE = """
import json, os
os.environ["XDG_DATA_HOME"] = os.environ["UNPLUG_CACHE"] = os.getcwd()
from click.testing import CliRunner
from unplug.sdk.cli import main
for name, words in CALLS.items():
    done = CliRunner().invoke(main, [name, *words.split()])
    print(json.dumps([name, done.exit_code, done.stderr]))
"""


def test_every_command_has_a_call_or_needs_the_base_alone() -> None:
    assert CALLS.keys() == EXTRA.keys(), "a command with an extra has a call in CALLS"
    assert COMMANDS.keys() - EXTRA.keys() == {"bundle", "cache"}, "it names no extra in COMMANDS"


def test_each_names_the_one_command_that_installs_what_it_lacks(tmp_path: Path) -> None:
    for name in ("a.png", "a.onnx", "forget.txt", "head.json", "audit.json", "key"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "model").mkdir()
    code = f"{with_only(BASE)}\nCALLS = {CALLS!r}\n{CODE}"
    wrong = {}
    for line in python(code, cwd=tmp_path).splitlines():
        name, exit_code, said = json.loads(line)
        wanted = (
            rf"error: \w+ is not installed: this needs the extra \[{EXTRA[name]}\]\. Run: "
            rf".*\[{EXTRA[name]}\].*\n"
        )
        if exit_code != 2 or not re.fullmatch(wanted, said):
            wrong[name] = (exit_code, said[-300:])
    assert wrong == {}
