"""Synthetic faces: determinism, landmarks, words, identity, ranges."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unplug.sdk.learning import faces

SIZE = 64


def _person(seed: int = 0) -> faces.Identity:
    return faces.sample_identity(np.random.default_rng(seed))


def _face(seed: int, age: float = 30.0, *, frontal: bool = False) -> faces.FaceParams:
    rng = np.random.default_rng(seed)
    return faces.sample_face(faces.sample_identity(rng), age, rng, frontal=frontal)


def test_every_public_name_is_there() -> None:
    for name in faces.__all__:
        assert getattr(faces, name) is not None
    assert dir(faces) == sorted(faces.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        faces.nothing  # noqa: B018


def test_same_seed_same_bytes() -> None:
    first, second = (faces.render(_face(7), SIZE) for _ in range(2))
    assert first.image.tobytes() != faces.render(_face(8), SIZE).image.tobytes()
    assert first.image.tobytes() == second.image.tobytes()
    assert first.landmarks.tobytes() == second.landmarks.tobytes()


def test_rendering_does_not_depend_on_what_was_drawn_before() -> None:
    lone = faces.render(_face(3), SIZE).image
    for seed in range(5):
        faces.render(_face(seed), 96)
    assert np.array_equal(faces.render(_face(3), SIZE).image, lone)


def test_landmark_table() -> None:
    assert tuple(faces.MEDIAPIPE_INDEX) == faces.LANDMARK_NAMES
    assert len(set(faces.MEDIAPIPE_INDEX.values())) == len(faces.LANDMARK_NAMES)
    assert all(0 <= i < 478 for i in faces.MEDIAPIPE_INDEX.values())


def test_landmarks_are_where_a_frontal_face_has_them() -> None:
    params = replace(
        _face(1, frontal=True),
        pose=faces.Pose(),
        camera=faces.Camera(),
        expression=faces.Expression(),
    )
    x, y = faces.render(params, 256).landmarks.T
    at = {name: i for i, name in enumerate(faces.LANDMARK_NAMES)}
    assert (
        x[at["right_eye_outer"]]
        < x[at["right_eye_inner"]]
        < x[at["left_eye_inner"]]
        < x[at["left_eye_outer"]]
    )
    assert (
        y[at["right_brow_middle"]]
        < y[at["right_iris"]]
        < y[at["nose_tip"]]
        < y[at["upper_lip_top"]]
        < y[at["chin"]]
    )
    assert abs(x[at["chin"]] - 128) < 2


@pytest.mark.parametrize("yaw", [-30.0, 30.0])
def test_yaw_moves_the_nose(yaw: float) -> None:
    params = replace(_face(1, frontal=True), pose=faces.Pose(yaw=yaw), camera=faces.Camera())
    f = faces.render(params, SIZE)
    nose = f.landmarks[faces.LANDMARK_NAMES.index("nose_tip"), 0]
    assert (nose > SIZE / 2) == (yaw > 0)


def test_landmarks_scale_with_the_size() -> None:
    small, large = (faces.render(_face(5), s).landmarks for s in (64, 256))
    assert np.allclose(small * 4, large, atol=0.05)


def test_identity_separates_people() -> None:
    """Two pictures of one person are nearer than pictures of two people, in the mean, at rest and
    at one age.
    """
    camera, calm = faces.Camera(), faces.Expression()

    def picture(person: int, shot: int) -> np.ndarray:
        rng = np.random.default_rng(100 * person + shot)
        p = faces.sample_face(_person(person), 30.0, rng, frontal=True)
        p = replace(
            p, camera=camera, expression=calm, background=faces.Background(), clothes="navy"
        )
        return faces.render(p, SIZE).image[8:56, 12:52].astype(np.float32)

    shots = np.stack([[picture(p, s) for s in range(2)] for p in range(12)])
    same = np.abs(shots[:, 0] - shots[:, 1]).mean()
    other = np.mean(
        [np.abs(shots[i, 0] - shots[j, 1]).mean() for i in range(12) for j in range(12) if i != j]
    )
    assert other > 1.8 * same


def test_age_changes_the_picture_steadily() -> None:
    base = replace(_face(2, frontal=True), camera=faces.Camera(), expression=faces.Expression())
    ages = [2.0, 8.0, 16.0, 30.0, 45.0, 60.0, 75.0, 88.0]
    images = [faces.render(replace(base, age=a), SIZE).image.astype(np.float32) for a in ages]
    steps = [np.abs(a - b).mean() for a, b in pairwise(images)]
    assert min(steps) > 0.5
    assert np.abs(images[0] - images[-1]).mean() > max(steps)


@pytest.mark.parametrize("age", [-0.1, 90.5, float("nan"), float("inf")])
def test_age_outside_a_human_life_is_refused(age: float) -> None:
    with pytest.raises(ValueError, match=r"age is .*: .*; pass a number from 0 to 90"):
        faces.FaceParams(identity=_person(), age=age)
    with pytest.raises(ValueError, match="age is"):
        faces.sample_face(_person(), age, np.random.default_rng(0))


@pytest.mark.parametrize("field", ["yaw", "pitch", "roll"])
def test_pose_beyond_a_profile_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"Pose.{field} is"):
        faces.Pose(**{field: 75.0})


@pytest.mark.parametrize("size", [0, 15, 4096])
def test_size_is_checked(size: int) -> None:
    with pytest.raises(ValueError, match="size is"):
        faces.render(_face(0), size)


@pytest.mark.parametrize("kind", ["colour", "kind"])
def test_unknown_names_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="pass one of"):
        faces.Background(**{kind: "plaid-ish"})


@pytest.mark.parametrize(
    ("age", "word"),
    [
        (0, "baby"),
        (5, "child"),
        (15, "teenager"),
        (25, "young adult"),
        (38, "adult"),
        (55, "middle-aged"),
        (80, "elderly"),
    ],
)
def test_age_words(age: float, word: str) -> None:
    assert faces.attributes_of(faces.FaceParams(identity=_person(), age=age))["age"] == word


def test_attributes_have_the_same_keys_and_follow_age() -> None:
    person = replace(
        _person(3),
        hair_colour="black",
        hair_style="bob",
        hairline=0.0,
        grey_age=50.0,
        glasses="none",
    )
    rng = np.random.default_rng(0)
    young, old = (faces.attributes_of(faces.sample_face(person, a, rng)) for a in (25.0, 88.0))
    assert (
        young.keys()
        == old.keys()
        >= {"age", "hair_colour", "hair_style", "skin", "expression", "background"}
    )
    assert young["hair_colour"] == "black"
    assert old["hair_colour"] in ("grey", "white")
    assert young["hair_style"] == "bob"
    assert all(isinstance(v, str) and v for v in young.values())


def test_contact_sheet() -> None:
    sheet = faces.contact_sheet(2, 3, 48, seed=4)
    assert sheet.shape == (96, 144, 3)
    assert sheet.dtype == np.uint8
    assert np.array_equal(sheet, faces.contact_sheet(2, 3, 48, seed=4))
    with pytest.raises(ValueError, match="positive"):
        faces.contact_sheet(0, 3, 48, seed=4)


_angles = st.floats(-30, 30)


@pytest.mark.long
@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    age=st.floats(0, faces.MAX_AGE),
    yaw=_angles,
    pitch=_angles,
    roll=_angles,
    expression=st.sampled_from(sorted(faces.EXPRESSIONS)),
    size=st.sampled_from([32, 64, 97]),
)
def test_any_face_can_be_drawn(
    seed: int, age: float, yaw: float, pitch: float, roll: float, expression: str, size: int
) -> None:
    params = replace(
        _face(seed, age),
        pose=faces.Pose(yaw=yaw, pitch=pitch, roll=roll),
        expression=faces.EXPRESSIONS[expression],
    )
    face = faces.render(params, size)
    assert face.image.shape == (size, size, 3)
    assert face.image.dtype == np.uint8
    assert face.image.flags.c_contiguous
    assert face.image.std() > 5
    assert face.landmarks.shape == (len(faces.LANDMARK_NAMES), 2)
    assert face.landmarks.dtype == np.float32
    assert face.landmarks.flags.c_contiguous
    assert (face.landmarks > 0).all()
    assert (face.landmarks < size).all()
