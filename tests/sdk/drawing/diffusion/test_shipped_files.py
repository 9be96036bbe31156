"""The weights that ship lie in a distribution of their own: missing, of another version or changed
is one line each.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.shipped_table import table

from unplug.core import CheckpointError, read_json
from unplug.plugins import ConditioningPlugin
from unplug.plugins.shipped_files import TABLE, shipped_path, shipped_place
from unplug.sdk.drawing.diffusion import base_name, find_lora, find_plugin, shipped_folder

from ...cli.calls import fail

PACKAGE = "unplug_weights"
OURS = shipped_place()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of this name with the plugin for edges alone, in the place of the real one."""
    assert OURS is not None
    place = tmp_path / "packages" / PACKAGE
    shutil.copytree(OURS / "canny", place / "canny")
    shutil.copy(OURS / "__init__.py", place)
    monkeypatch.syspath_prepend(place.parent)
    monkeypatch.delitem(sys.modules, PACKAGE, raising=False)
    return place


def test_the_table_is_of_the_files_in_this_checkout() -> None:
    assert read_json(TABLE) == table(), "run: python -m benchmarks.shipped_table"


def test_what_is_whole_is_found_by_its_name(fake: Path) -> None:
    assert shipped_folder("canny") == fake / "canny" == find_plugin("canny")


def test_a_bare_name_opens_what_ships_and_a_path_the_folder(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "canny").mkdir()
    plugin = ConditioningPlugin.from_pretrained("canny")
    assert repr(plugin) == "ConditioningPlugin(canny at 128 px, 1,590,744 parameters)"
    with pytest.raises(CheckpointError, match=r"canny: no model\.safetensors"):
        ConditioningPlugin.from_pretrained("./canny")
    with pytest.raises(CheckpointError, match=r"^cany: no plugin .* Give canny, a folder, or OWN"):
        ConditioningPlugin.from_pretrained("cany")


def test_weights_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    why = r': the weights that ship are not installed\. Run: .*install \S*/sdk/weights"\.$'
    for asked in (
        lambda: find_plugin("canny"),
        lambda: find_lora("two-steps"),
        lambda: shipped_folder("small"),
    ):
        with pytest.raises(CheckpointError, match=why):
            asked()


def test_own_models_need_no_weights_that_ship(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    assert (
        shipped_folder(str(tmp_path))
        == find_plugin(str(tmp_path))
        == find_lora(str(tmp_path))
        == tmp_path
    )
    assert base_name(tmp_path) == tmp_path.name


@pytest.mark.parametrize("text", ['__version__ = "0.9"\n', ""])
def test_weights_of_another_version(fake: Path, text: str) -> None:
    (fake / "__init__.py").write_text(text)
    version = "0.9" if text else "of no version"
    needed = read_json(TABLE)["version"]
    why = f"^canny: unplug-weights {version} is installed, and this unplug needs {needed}. Run: "
    with pytest.raises(CheckpointError, match=why):
        shipped_folder("canny")


WEIGHTS = "canny/diffusion_pytorch_model.safetensors"
HARM: dict[str, tuple[Callable[[Path], object], str]] = {
    "edited": (
        lambda place: flip(place / WEIGHTS),
        f"{WEIGHTS} of unplug-weights: it is not the file that shipped",
    ),
    "truncated": (
        lambda place: cut(place / WEIGHTS),
        f"{WEIGHTS} of unplug-weights: it is not the file that shipped",
    ),
    "gone": (
        lambda place: (place / WEIGHTS).unlink(),
        f"{WEIGHTS} of unplug-weights: it is missing",
    ),
    "added": (
        lambda place: (place / "canny/diffusion_pytorch_model.fp16.safetensors").touch(),
        "canny/diffusion_pytorch_model.fp16.safetensors of unplug-weights: no such file shipped",
    ),
}


def flip(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("name", HARM)
def test_a_file_that_was_changed(fake: Path, name: str) -> None:
    harm, why = HARM[name]
    harm(fake)
    with pytest.raises(
        CheckpointError, match=rf"{why}\. Delete {fake}\. Run: .*--force-reinstall --no-deps "
    ) as raised:
        shipped_folder("canny")
    assert "\n" not in str(raised.value)


def test_a_process_reads_a_folder_once(fake: Path) -> None:
    assert shipped_path("canny", "canny") == fake / "canny"
    cut(fake / WEIGHTS)
    assert shipped_path("canny", "canny") == fake / "canny"


@pytest.mark.parametrize(
    "words",
    [["export", "canny", "--out", "out"], ["run", "canny", "--image", "a.png"], ["bench", "canny"]],
)
def test_a_command_says_it_in_one_line(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, PACKAGE, None)
    assert "canny: the weights that ship are not installed. Run: " in fail(*words).line
