"""What is not installed is named with the one command that installs it from where the user is."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from unplug.core import MissingExtraError, extra_of, installing
from unplug.core.extras import EXTRAS, OWNER

ROOT = Path(__file__).parents[2]
IMPORTED = {"opencv-python-headless": "cv2", "protobuf": "google", "scikit-learn": "sklearn"}
"""Distributions whose import has another name."""
OURS = {"all", "demo", "dev"}
"""Extras of extras, and that of whoever works on unplug."""


def test_every_optional_package_has_its_extra() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert options.keys() - OURS == EXTRAS.keys()
    base = {"cryptography"}
    for extra in options.keys() - OURS:
        for line in options[extra]:
            name = re.match(r"[A-Za-z0-9_-]+", line)[0]  # type: ignore[index]
            package = IMPORTED.get(name, name.replace("-", "_"))
            assert name == "unplug-sdk" or package in base | OWNER.keys(), line


def test_only_what_is_absent_is_missing() -> None:
    gone = ModuleNotFoundError(name="segno.encoder")
    assert extra_of(ModuleNotFoundError(name="torch.nothing_of_this_name")) is None  # another version, not none
    assert extra_of(ModuleNotFoundError(name="somebody_elses")) is None and extra_of(ModuleNotFoundError()) is None
    assert extra_of(gone) is None or str(extra_of(gone)).startswith("segno is not installed: this needs the extra [bench")


def test_a_checkout_is_named_by_its_folder() -> None:
    line = str(MissingExtraError("onnxruntime", "onnx"))
    assert line.startswith("onnxruntime is not installed: this needs the extra [onnx]. Run: ")
    assert f'-e "{ROOT}[onnx]"' in line


class Installed:
    """A distribution whose ``direct_url.json`` says where it came from."""

    def __init__(self, origin: object) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


COMMIT = "5a05c616"


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        (None, '"unplug-sdk[run]"'),
        ({"url": "file:///src/unplug", "dir_info": {}}, '"unplug-sdk[run] @ file:///src/unplug"'),
        ({"url": "file:///w/unplug.whl", "archive_info": {}}, '"unplug-sdk[run] @ file:///w/unplug.whl"'),
        (
            {"url": "ssh://git@host/unplug", "vcs_info": {"vcs": "git", "commit_id": COMMIT}},
            f'"unplug-sdk[run] @ git+ssh://git@host/unplug@{COMMIT}"',
        ),
    ],
)
def test_an_installed_copy_is_asked_where_it_came_from(
    origin: object, wanted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "CHECKOUT", tmp_path)  # site-packages
    monkeypatch.setattr(installing, "distribution", lambda _: Installed(origin))
    assert installing.install_command("run").endswith(f" {wanted}")


@pytest.mark.parametrize(
    ("has_pip", "on_path", "begins"),
    [
        (True, "bin", "pip install "),
        (True, "elsewhere", '"{python}" -m pip install '),
        (False, "bin", "uv pip install --python "),
    ],
)
def test_the_pip_is_that_of_this_environment(
    has_pip: bool, on_path: str, begins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "bin" / "python"
    monkeypatch.setattr(installing.sys, "executable", str(python))
    monkeypatch.setattr(installing.shutil, "which", lambda _: str(tmp_path / on_path / "pip"))
    monkeypatch.setattr(installing, "find_spec", lambda _: object() if has_pip else None)
    assert installing.install_command("run").startswith(begins.format(python=python))
