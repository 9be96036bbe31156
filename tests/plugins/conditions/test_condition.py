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
    Depth,
    FaceLandmark,
    Holistic,
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


def test_settings_come_from_text_with_their_types() -> None:
    assert dataclasses.asdict(build_condition("canny", {"low": "12.5", "high": "30"})) == {
        "low": 12.5,
        "high": 30.0,
    }
    assert dataclasses.asdict(build_condition("face_landmark", {"faces": "all"}))["faces"] == "all"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("cany", {}, r"Did you mean canny\?"),
        ("canny", {"lo": "1"}, "it has no setting 'lo'. Known: low, high"),
        ("canny", {"low": "much"}, "not a value of type float"),
        ("canny", {"low": "-1"}, "Use 0 <= low <= high"),
        ("canny", {"low": "201"}, "Use 0 <= low <= high"),
        ("canny", {"low": "nan"}, "Use 0 <= low <= high"),
        ("canny", {"high": "inf"}, "Use 0 <= low <= high"),
        ("face_landmark", {"faces": "two"}, "Use one, largest, all"),
        ("face_landmark", {"style": "oil"}, "Use unplug, mediapipe"),
    ],
)
def test_wrong_settings_are_refused(kind: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_condition(kind, options)


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


def test_identity_changes_with_the_drawing_and_with_the_packages_that_draw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = identity(Canny())
    assert (
        first["version"] == 1 and {"opencv-python-headless", "pillow"} <= first["versions"].keys()
    )
    for kind in (FaceLandmark, Holistic):
        assert [names[0] for names in kind.packages] == [
            "mediapipe",
            "opencv-python-headless",
            "pillow",
        ]
    assert Depth.packages[-1] == ("pillow",)
    monkeypatch.setattr(Canny, "version", 2)
    assert identity(Canny()) == first | {"version": 2}


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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Switched(Condition):
    """Has settings of all plain types."""

    on: bool = False
    count: int = 1
    names: tuple[str, ...] | None = None

    kind = "switched"
    description = "a switch"

    def __call__(self, image_HWC: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return image_HWC


def test_switches_are_read_as_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONDITIONS._targets, "switched", Switched)
    for text, value in (
        ("true", True),
        ("False", False),
        ("0", False),
        ("1", True),
        ("off", False),
        ("Yes", True),
    ):
        assert build_condition("switched", {"on": text}) == Switched(on=value)
    for options, words in (
        ({"on": "maybe"}, "Write on=true or on=false"),
        ({"names": "a"}, "not a value of type NoneType"),
    ):
        with pytest.raises(InputError, match=words):
            build_condition("switched", options)


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


def test_third_parties_need_no_more_than_a_call() -> None:
    class Negative(Condition):
        kind = "negative"
        description = "the negative"

        def __call__(self, image_HWC: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
            return 255 - image_HWC

    picture = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    with Negative() as negative:
        assert np.array_equal(negative.render(picture, 40), 255 - picture[:, 10:50])
