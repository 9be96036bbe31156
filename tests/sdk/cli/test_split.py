"""`unplug data split`: the file that it writes is the one that training takes."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from unplug.sdk.cli import main
from unplug.sdk.data import load_split, save_split

SPEC = "synth:n=40,subjects=20"


def test_a_written_split_is_read_back_and_one_with_a_forget_set_is_not_trained_on(tmp_path: Path) -> None:
    out = tmp_path / "split.json"
    done = CliRunner().invoke(main, ["data", "split", SPEC, "--size", "32", "--out", str(out), "--json", "--seed", "3"])
    said = json.loads(done.stdout)
    split = load_split(out)
    assert done.exit_code == 0 and said["sha256"] == split.sha256 and said["subject_disjoint"]
    assert (said["train"], said["validation"], said["test"]) == (len(split.train), len(split.validation), len(split.test))

    save_split(split.with_forget(split.train[:2]), out)
    refused = CliRunner().invoke(
        main, ["train", "age", "--data", SPEC, "--image-size", "32", "--split", str(out), "--out", str(tmp_path / "age")]
    )
    assert refused.exit_code == 2 and "it names a forget set" in refused.stderr
    assert not (tmp_path / "age").exists()
