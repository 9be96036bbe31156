"""Names of the ground-truth landmarks, and where MediaPipe's face mesh (478 points) keeps the same
place.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Right is the subject's right (left in the image), as MediaPipe counts.
MEDIAPIPE_INDEX: Mapping[str, int] = MappingProxyType(
    {
        "right_eye_outer": 33,
        "right_eye_inner": 133,
        "right_eye_top": 159,
        "right_eye_bottom": 145,
        "right_iris": 468,
        "left_eye_outer": 263,
        "left_eye_inner": 362,
        "left_eye_top": 386,
        "left_eye_bottom": 374,
        "left_iris": 473,
        "right_brow_outer": 46,
        "right_brow_middle": 52,
        "right_brow_inner": 55,
        "left_brow_outer": 276,
        "left_brow_middle": 282,
        "left_brow_inner": 285,
        "nose_bridge": 168,
        "nose_tip": 4,
        "nose_base": 2,
        "right_nostril": 129,
        "left_nostril": 358,
        "right_mouth_corner": 61,
        "left_mouth_corner": 291,
        "upper_lip_top": 0,
        "upper_lip_bottom": 13,
        "lower_lip_top": 14,
        "lower_lip_bottom": 17,
        "chin": 152,
        "right_cheek": 234,
        "left_cheek": 454,
        "right_jaw": 172,
        "left_jaw": 397,
    }
)

LANDMARK_NAMES: tuple[str, ...] = tuple(MEDIAPIPE_INDEX)
