"""The registry of conditions and what all of them promise."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import huggingface_hub
import numpy as np
import pytest

from unplug.core import CheckpointError, InputError
from unplug.plugins.conditions import (
    CONDITIONS,
    Canny,
    Condition,
    build_condition,
    identity,
    portable,
)


@pytest.mark.parametrize("kind", CONDITIONS)
def test_every_condition_describes_itself_and_is_settings_alone(kind: str) -> None:
    condition = build_condition(kind)
    assert isinstance(condition, Condition) and condition.kind == kind
    assert condition.description and "\n" not in condition.description
    assert dataclasses.is_dataclass(condition) and condition == build_condition(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        condition.kind = "other"  # type: ignore[misc]
    condition.close()  # nothing was opened yet


@pytest.mark.parametrize(
    ("kind", "variable"),
    [("face_landmark", "UNPLUG_FACE_LANDMARKER"), ("holistic", "UNPLUG_HOLISTIC_LANDMARKER")],
)
def test_a_missing_task_file_says_where_to_get_it_and_how_to_pass_it(
    kind: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    for options in ({}, {"task": str(tmp_path / "none.task")}, {"task": str(tmp_path)}):
        with pytest.raises(InputError) as caught:
            build_condition(kind, options).resolve()
        assert "ai.google.dev/edge/mediapipe" in str(caught.value)
        assert "`task=FILE`" in str(caught.value) and variable in str(caught.value)
    (tmp_path / "some.task").write_bytes(b"\xff")
    monkeypatch.setenv(variable, str(tmp_path / "some.task"))
    assert build_condition(kind).resolve() == build_condition(
        kind, {"task": str(tmp_path / "some.task")}
    )


def test_depth_without_a_model_says_what_to_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNPLUG_DEPTH_MODEL", raising=False)
    with pytest.raises(InputError, match="`model=NAME`"):
        build_condition("depth").resolve()
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="it is a file"):
        build_condition("depth", {"model": str(tmp_path / "file")}).resolve()
    monkeypatch.setenv("UNPLUG_DEPTH_MODEL", str(tmp_path))
    assert build_condition("depth").resolve() == build_condition("depth", {"model": str(tmp_path)})


def test_depth_pins_the_commit_of_a_hub_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, asked = "0123456789" * 4, list[tuple[str, str, str | None]]()

    def download(name: str, file: str, *, revision: str | None) -> str:
        asked.append((name, file, revision))
        if name == "some/gone":
            raise OSError("no such repository")
        return str(tmp_path / "snapshots" / commit / file)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    depth = build_condition("depth", {"model": "some/hub-id"}).resolve()
    assert (
        depth
        == build_condition("depth", {"model": "some/hub-id", "revision": commit})
        == depth.resolve()
    )
    assert asked == [("some/hub-id", "config.json", None)]
    assert identity(depth)["settings"] == {"model": "some/hub-id", "revision": commit}
    assert portable(depth) == {"model": "some/hub-id", "revision": commit}
    with pytest.raises(CheckpointError, match="some/gone: no depth-estimation model can be read"):
        build_condition("depth", {"model": "some/gone", "revision": "v1"}).resolve()
    assert asked[-1][2] == "v1"


def test_identity_changes_with_what_decides_the_result_and_holds_no_path(tmp_path: Path) -> None:
    one, two = tmp_path / "one.task", tmp_path / "two.task"
    one.write_bytes(b"\xff")
    two.write_bytes(b"\xff")
    first = identity(build_condition("face_landmark", {"task": str(one)}))
    assert first == identity(build_condition("face_landmark", {"task": str(two)}))
    assert str(tmp_path) not in json.dumps(first)
    two.write_bytes(b"\xfe")
    assert first != identity(build_condition("face_landmark", {"task": str(two)}))
    assert first != identity(
        build_condition("face_landmark", {"task": str(one), "style": "mediapipe"})
    )
    assert identity(build_condition("canny")) != identity(build_condition("canny", {"low": "1"}))


def test_portable_settings_build_the_same_condition_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What names a place or a device of this machine stays here; the environment names it there."""
    (tmp_path / "a.task").write_bytes(b"\xff")
    here = build_condition("face_landmark", {"task": str(tmp_path / "a.task"), "faces": "largest"})
    assert portable(here) == {"faces": "largest"} and portable(Canny()) == {}
    (tmp_path / "a.task").rename(tmp_path / "b.task")
    monkeypatch.setenv("UNPLUG_FACE_LANDMARKER", str(tmp_path / "b.task"))
    assert build_condition(
        "face_landmark", portable(build_condition("face_landmark", {"faces": "largest"}))
    ).resolve() == (
        build_condition("face_landmark", {"task": str(tmp_path / "b.task"), "faces": "largest"})
    )
    depth = build_condition("depth", {"model": str(tmp_path), "device": "cpu"})
    assert portable(depth) == {} and identity(depth)["settings"].keys() == {"model", "revision"}


def test_the_package_imports_neither_torch_nor_a_foreign_runtime() -> None:
    code = (
        "import sys\nfrom unplug.plugins import conditions\n"
        "[getattr(conditions, name) for name in conditions.__all__]\n"
        "conditions.build_condition('face_landmark')\n"
        "print([name for name in ('torch', 'mediapipe', 'transformers', 'cv2') if name in "
        "sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Switched(Condition):
    """Has settings of all plain types, and needs no more than a call."""

    on: bool = False
    count: int = 1
    names: tuple[str, ...] | None = None

    kind = "switched"
    description = "a switch"

    def __call__(self, image_HWC: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return 255 - image_HWC


@pytest.fixture(autouse=True)
def switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONDITIONS._targets, "switched", Switched)


@pytest.mark.parametrize(
    ("kind", "options", "value"),
    [
        ("canny", {"low": "12.5"}, 12.5),
        ("face_landmark", {"faces": "all"}, "all"),
        *(("switched", {"on": text}, True) for text in ("true", "1", "Yes")),
        *(("switched", {"on": text}, False) for text in ("False", "0", "off")),
    ],
)
def test_settings_come_from_text_with_their_types(
    kind: str, options: dict[str, str], value: object
) -> None:
    (name,) = options
    assert getattr(build_condition(kind, options), name) == value


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("cany", {}, r"Did you mean canny\?"),
        ("canny", {"lo": "1"}, "it has no setting 'lo'. Known: low, high"),
        ("canny", {"low": "much"}, "not a value of type float"),
        *(("canny", {"low": low}, "Use 0 <= low <= high") for low in ("-1", "201", "nan")),
        ("canny", {"high": "inf"}, "Use 0 <= low <= high"),
        ("face_landmark", {"faces": "two"}, "Use one, largest, all"),
        ("face_landmark", {"style": "oil"}, "Use unplug, mediapipe"),
        ("switched", {"on": "maybe"}, "Write on=true or on=false"),
        ("switched", {"names": "a"}, "not a value of type NoneType"),
    ],
)
def test_wrong_settings_are_refused(kind: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_condition(kind, options)


def test_identity_changes_with_the_drawing_and_names_what_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = identity(Canny())
    assert {"opencv-python-headless", "pillow"} <= first["versions"].keys()
    monkeypatch.setattr(Canny, "version", 2)
    assert identity(Canny()) == first | {"version": 2}


def test_the_centre_square_is_rendered() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    with Switched() as negative:
        assert np.array_equal(negative.render(picture, 40), 255 - picture[:, 10:50])
