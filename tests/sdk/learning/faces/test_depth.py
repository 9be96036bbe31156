"""Exact depth of drawn faces: where it lies against the picture, what is nearer than what, and laws
of it.
"""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from unplug.sdk.learning import faces
from unplug.sdk.learning.data import SynthSource
from unplug.sdk.learning.faces._cues import age_cues
from unplug.sdk.learning.faces._scene import paint_background
from unplug.sdk.learning.faces._shape import build_shape
from unplug.sdk.learning.faces._view import View
from unplug.sdk.learning.faces.depth import BACKDROP, depth_map
from unplug.sdk.learning.faces.depth.surface import Rays, depth_of

SIZE = 128
CLEAR = faces.Camera()
HALF = 0.9
"""Of a head's depth above the backdrop: what a pixel has that an outline of the head cuts in
halves.
"""


def a_face(seed: int, age: float = 34.0, **changed: object) -> faces.FaceParams:
    rng = np.random.default_rng(seed)
    drawn = faces.sample_face(faces.sample_identity(rng), age, rng)
    return replace(drawn, camera=CLEAR, light=faces.Light(warmth=0.0), **changed)  # type: ignore[arg-type]


def shown(params: faces.FaceParams) -> NDArray[np.float64]:
    """How much of each pixel shows no background (SIZE, SIZE): two pictures that differ by nothing
    else.
    """
    walls = [faces.Background(kind="plain", colour=colour) for colour in ("cream", "navy")]
    one, two = (
        faces.render(replace(params, background=wall), SIZE).image.astype(float) for wall in walls
    )
    bare = [
        cv2.resize(paint_background(wall, 2 * SIZE), (SIZE, SIZE), interpolation=cv2.INTER_AREA)
        for wall in walls
    ]
    return 1.0 - np.abs(one - two).sum(axis=2) / np.abs(bare[0].astype(float) - bare[1]).sum(axis=2)


def plain_head(pose: faces.Pose | None = None) -> faces.FaceParams:
    """A bald grown-up: the same on both sides."""
    person = faces.sample_identity(np.random.default_rng(3))
    person = replace(
        person, hair_style="bald", glasses="none", beard=0.0, cue_offsets=(0.0,) * 5, age_offset=0.0
    )
    return faces.FaceParams(identity=person, age=30.0, pose=pose or faces.Pose())


def test_the_silhouette_is_the_pictures() -> None:
    """Every hair style and age; a shift by one pixel would be seen."""
    agreed, shifted = [], []
    for seed in range(40):
        params = a_face(seed, 3.0 + 2.0 * seed)
        picture, own = shown(params) > 0.5, depth_map(params, SIZE) > BACKDROP + HALF
        agreed.append((picture & own).sum() / (picture | own).sum())
        moved = np.roll(own, 1, axis=1)
        shifted.append((picture & moved).sum() / (picture | moved).sum())
    assert min(agreed) > 0.98 and np.mean(agreed) > 0.99
    assert np.mean(shifted) < np.mean(agreed) - 0.005


@pytest.mark.parametrize("yaw", [-30.0, -12.0, 0.0, 12.0, 30.0])
def test_the_surface_goes_through_what_the_features_are_drawn_at(yaw: float) -> None:
    params = plain_head(faces.Pose(yaw=yaw, pitch=8.0, roll=-6.0))
    cues = age_cues(params.identity, params.age, params.jitter)
    view = View(build_shape(params, cues), params.pose, params.camera, 512)
    rays = Rays(view)
    skin = rays.head(params, cues)
    for name, row in (("tip", 0), ("base", 0), ("lips", 3), ("lips", 8)):
        point = view.shape.points[name][[row]]
        assert float(rays.sample(skin, view.project(point))[0]) == pytest.approx(
            float(depth_of(view, point)[0]), abs=0.06
        )


@pytest.mark.parametrize("yaw", [0.0, 25.0])
def test_what_is_nearer_than_what(yaw: float) -> None:
    """Looking to the right of the picture, the left eye of the subject goes away."""
    params = plain_head(faces.Pose(yaw=yaw))
    depth, landmarks = depth_map(params, 256), faces.render(params, 256).landmarks
    at = {
        name: float(depth[int(y), int(x)])
        for name, (x, y) in zip(faces.LANDMARK_NAMES, landmarks, strict=True)
    }
    assert at["nose_tip"] > max(at["nose_bridge"] + 0.2, at["upper_lip_top"], at["chin"])
    assert depth[0, 0] == depth.min() == BACKDROP < depth[-1, 128] < at["chin"]
    assert depth.dtype == np.float32 and depth.flags.c_contiguous
    nearer = at["right_iris"] - at["left_iris"]
    if yaw:
        assert nearer > 0.1
    else:
        assert abs(nearer) < 0.02 and at["left_iris"] > at["left_cheek"] + 0.3


def test_a_mirrored_pose_has_the_mirrored_depth() -> None:
    for yaw, pitch, roll in ((0.0, 0.0, 0.0), (25.0, 0.0, 0.0), (-18.0, 10.0, 9.0)):
        one = depth_map(plain_head(faces.Pose(yaw=yaw, pitch=pitch, roll=roll)), SIZE)
        two = depth_map(plain_head(faces.Pose(yaw=-yaw, pitch=pitch, roll=-roll)), SIZE)
        apart = np.abs(one - two[:, ::-1])
        assert np.mean(apart) < 0.01 and np.quantile(apart, 0.99) < 0.2


def test_glasses_and_hair_lie_over_the_skin() -> None:
    bare = plain_head()
    worn = replace(bare, identity=replace(bare.identity, glasses="black glasses"))
    haired = replace(bare, identity=replace(bare.identity, hair_style="bob with bangs"))
    plain, rims, hair = (depth_map(one, 256) for one in (bare, worn, haired))
    assert (rims >= plain - 1e-6).all() and 0.002 < (rims > plain + 0.02).mean() < 0.05
    assert (hair > plain + 0.02).mean() > 0.1 and (hair < plain - 0.05).mean() < 0.01


def test_light_blur_and_noise_change_no_depth() -> None:
    other = replace(
        plain_head(),
        light=faces.Light(azimuth=60.0, exposure=0.7),
        camera=faces.Camera(noise=6.0, blur=0.01),
        background=faces.Background(kind="dots", colour="navy"),
        clothes="mint",
    )
    assert np.array_equal(depth_map(other, 64), depth_map(plain_head(), 64))


def test_sizes_agree() -> None:
    for seed in range(4):
        small, large = depth_map(a_face(seed), 64), depth_map(a_face(seed), 256)
        assert (
            np.abs(cv2.resize(large, (64, 64), interpolation=cv2.INTER_AREA) - small).mean() < 0.04
        )
    with pytest.raises(ValueError, match="from 16 to 2048"):
        depth_map(plain_head(), 15)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10_000),
    st.floats(0.0, 90.0),
    st.builds(
        faces.Pose, yaw=st.floats(-60, 60), pitch=st.floats(-60, 60), roll=st.floats(-60, 60)
    ),
)
def test_every_face_has_a_finite_depth(seed: int, age: float, pose: faces.Pose) -> None:
    depth = depth_map(replace(a_face(seed, age), pose=pose), 32)
    assert np.isfinite(depth).all() and depth.min() >= BACKDROP and depth.max() < 3.0
    assert np.array_equal(depth, depth_map(replace(a_face(seed, age), pose=pose), 32))


def test_the_source_gives_the_depth_of_its_pictures() -> None:
    source = SynthSource("n=3,subjects=3,seed=4")
    sample = source.listing().samples[1]
    assert np.array_equal(source.depth(sample, 48), depth_map(source.params(1), 48))
