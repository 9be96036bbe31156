"""Named tensors come back from JSON as they went in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unplug.core import IOSpec, TensorSpec

words = st.text('ab ü"\n', max_size=6)  # the whole of Unicode takes a second to set up
ranges = st.none() | st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))


@st.composite
def tensors(draw: st.DrawFn) -> TensorSpec:
    shape = tuple(draw(st.lists(st.integers(1, 512), min_size=1, max_size=4)))
    return TensorSpec(
        name=draw(words.filter(bool)),
        shape=shape,
        layout="NCHW"[: len(shape)],
        dtype=draw(st.sampled_from(["float32", "int32", "uint8"])),
        range=draw(ranges),
        colour=draw(st.none() | st.just("RGB")),
        description=draw(words),
    )


@given(st.lists(tensors(), max_size=3), st.lists(tensors(), max_size=3))
def test_round_trip_through_json(inputs: list[TensorSpec], outputs: list[TensorSpec]) -> None:
    spec = IOSpec(inputs=tuple(inputs), outputs=tuple(outputs))
    assert IOSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


def test_a_layout_names_every_axis() -> None:
    with pytest.raises(ValueError, match="layout NCH does not name the 4 axes"):
        TensorSpec(name="image", shape=(1, 3, 8, 8), layout="NCH")
