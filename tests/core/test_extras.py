"""What is not installed is named with the one command that installs it from where the user is."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from unplug.core import MissingExtraError, extra_of, installing
from unplug.core.extras import EXTRAS, OWNER, TOGETHER

ROOT = Path(__file__).parents[2]
IMPORTED = {
    "c2pa-python": "c2pa",
    "opencv-python-headless": "cv2",
    "pillow": "PIL",
    "protobuf": "google",
    "scikit-learn": "sklearn",
}
"""Distributions whose import has another name."""
BROUGHT = {"coreai", "starlette", "torchao"}
"""By the packages that are named."""
OURS = {"all", "demo", "dev", "forget", "phone", "site"}
"""Extras of extras, and those of people who work on unplug."""


DECLARED: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


def imports_of(extra: str) -> set[str]:
    """Import names of all that an extra installs by name, also by way of the extras that it builds
    on.
    """
    names = set[str]()
    for line in DECLARED[extra]:
        if inner := re.match(r"unplug-sdk\[(.*)\]", line):
            names = names.union(*map(imports_of, inner[1].split(",")))
        else:
            name = re.match(r"[A-Za-z0-9_-]+", line)[0]  # type: ignore[index]
            names.add(IMPORTED.get(name, name.replace("-", "_")))
    return names


def test_every_optional_package_has_its_extra() -> None:
    assert DECLARED.keys() - OURS == EXTRAS.keys()
    for extra in EXTRAS:
        assert imports_of(extra) <= OWNER.keys() | {"cryptography"}


@pytest.mark.parametrize("extra", TOGETHER)
def test_an_extra_that_builds_on_others_installs_what_it_says(extra: str) -> None:
    said = {package for part in TOGETHER[extra] for package in EXTRAS[part]}
    assert imports_of(extra) & OWNER.keys() <= said | {"onnx", "onnxruntime"}
    assert {package for package in said if package not in BROUGHT} <= imports_of(extra)


def test_the_extra_of_the_command_is_named_where_it_has_the_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unplug.core.extras.find_spec", lambda _name: None)
    error = ModuleNotFoundError(name="scipy.stats")
    named = {"forget": "forget", "bench": "bench", "run": "report", None: "report"}
    for asked_by, extra in named.items():
        missing = extra_of(error, asked_by)
        assert missing is not None and missing.extra == extra


def test_only_what_is_absent_is_missing() -> None:
    # of torch another version is installed, not none
    for name in ("torch.nothing_of_this_name", "somebody_elses", None):
        assert extra_of(ModuleNotFoundError(name=name)) is None


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
        (
            {"url": "file:///w/unplug.whl", "archive_info": {}},
            '"unplug-sdk[run] @ file:///w/unplug.whl"',
        ),
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
