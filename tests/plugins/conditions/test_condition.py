"""The registry of conditions and what all of them promise."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unplug.plugins.conditions import CONDITIONS, Condition, build_condition, identity
from unplug.plugins.errors import CheckpointError, InputError


def test_the_four_conditions_are_there() -> None:
    assert {"canny", "depth", "face_landmark", "holistic"} <= set(CONDITIONS)


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
    assert dataclasses.asdict(build_condition("canny", {"low": "12.5", "high": "30"})) == {"low": 12.5, "high": 30.0}
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
    ("kind", "variable"), [("face_landmark", "UNPLUG_FACE_LANDMARKER"), ("holistic", "UNPLUG_HOLISTIC_LANDMARKER")]
)
def test_a_missing_task_file_says_where_to_get_it_and_how_to_pass_it(
    kind: str, variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(variable, raising=False)
    for options in ({}, {"task": str(tmp_path / "none.task")}, {"task": str(tmp_path)}):
        with pytest.raises(InputError) as caught:
            build_condition(kind, options).resolve()
        assert "ai.google.dev/edge/mediapipe" in str(caught.value)
        assert "--task FILE" in str(caught.value) and variable in str(caught.value)
    (tmp_path / "some.task").write_bytes(b"x")
    monkeypatch.setenv(variable, str(tmp_path / "some.task"))
    assert build_condition(kind).resolve() == build_condition(kind, {"task": str(tmp_path / "some.task")})


def test_depth_without_a_model_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--set model=NAME"):
        build_condition("depth").resolve()
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="it is a file"):
        build_condition("depth", {"model": str(tmp_path / "file")}).resolve()
    assert build_condition("depth", {"model": "some/hub-id"}).resolve() == build_condition("depth", {"model": "some/hub-id"})


def test_identity_changes_with_what_decides_the_result_and_holds_no_path(tmp_path: Path) -> None:
    one, two = tmp_path / "one.task", tmp_path / "two.task"
    one.write_bytes(b"a")
    two.write_bytes(b"a")
    first = identity(build_condition("face_landmark", {"task": str(one)}))
    assert first == identity(build_condition("face_landmark", {"task": str(two)}))
    assert str(tmp_path) not in json.dumps(first)
    two.write_bytes(b"b")
    assert first != identity(build_condition("face_landmark", {"task": str(two)}))
    assert first != identity(build_condition("face_landmark", {"task": str(one), "style": "mediapipe"}))
    assert identity(build_condition("canny")) != identity(build_condition("canny", {"low": "1"}))


def test_the_package_imports_neither_torch_nor_a_foreign_runtime() -> None:
    code = (
        "import sys\nfrom unplug.plugins import conditions\n"
        "[getattr(conditions, name) for name in conditions.__all__]\n"
        "conditions.build_condition('face_landmark')\n"
        "print([name for name in ('torch', 'mediapipe', 'transformers', 'cv2') if name in sys.modules])"
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
