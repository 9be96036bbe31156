"""Named tensors: what goes into a model and what comes out, the same in every target, manifest and
app.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """One named tensor.

    Args:
        name: the same in PyTorch, LiteRT, ONNX, Core ML, the manifest and the apps.
        shape: static shape; the first axis is the batch.
        dtype: numpy name of the element type.
        layout: one letter an axis: N batch, C channels, H height, W width.
        range: smallest and largest value that the model expects or gives, or None when unbounded.
        colour: order of the colour channels ("RGB"), or None where there are none.
        description: one line for model cards and target metadata.
    """

    name: str
    shape: tuple[int, ...]
    layout: str
    dtype: str = "float32"
    range: tuple[float, float] | None = None
    colour: str | None = None
    description: str = ""

    def __post_init__(self) -> None:
        if len(self.layout) != len(self.shape):
            raise ValueError(
                f"{self.name}: layout {self.layout} does not name the {len(self.shape)} axes of "
                f"{self.shape}"
            )

    @property
    def height(self) -> int:
        """The height of an image tensor in pixels."""
        return self.shape[self.layout.index("H")]

    def in_layout(self, layout: str) -> TensorSpec:
        """The same tensor with its axes in another order.

        Example:
            >>> TensorSpec(name="image", shape=(1, 3, 8, 6), layout="NCHW").in_layout("NHWC").shape
            (1, 8, 6, 3)
        """
        if sorted(layout) != sorted(self.layout):
            raise ValueError(f"{self.name}: {layout} has other axes than {self.layout}")
        return replace(
            self, layout=layout, shape=tuple(self.shape[self.layout.index(axis)] for axis in layout)
        )

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> TensorSpec:
        """Reads what `dataclasses.asdict` and JSON made of a spec."""
        span = raw.get("range")
        return cls(
            name=str(raw["name"]),
            shape=tuple(int(n) for n in raw["shape"]),
            layout=str(raw["layout"]),
            dtype=str(raw.get("dtype", "float32")),
            range=None if span is None else (float(span[0]), float(span[1])),
            colour=raw.get("colour"),
            description=str(raw.get("description", "")),
        )


@dataclass(frozen=True, kw_only=True)
class IOSpec:
    """A model's named inputs and outputs, in call order.

    Example:
        >>> spec = IOSpec(inputs=(TensorSpec(name="image", shape=(1, 3, 64, 64), layout="NCHW"),), outputs=())
        >>> IOSpec.from_dict(spec.to_dict()) == spec
        True
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]

    def images_in(self, layout: str) -> IOSpec:
        """The same tensors, images with their axes in another order: NCHW as PyTorch has them, NHWC
        as phones do.

        Example:
            >>> spec = IOSpec(inputs=(TensorSpec(name="image", shape=(1, 3, 8, 6), layout="NCHW"),), outputs=())
            >>> spec.images_in("NHWC").inputs[0].shape
            (1, 8, 6, 3)
        """
        inputs, outputs = (
            tuple(
                item.in_layout(layout) if sorted(item.layout) == sorted(layout) else item
                for item in side
            )
            for side in (self.inputs, self.outputs)
        )
        return IOSpec(inputs=inputs, outputs=outputs)

    def name_outputs(self, outputs: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
        """What a model returned, by name and in order: a mapping as it is, a sequence by its place.

        Example:
            >>> IOSpec(inputs=(), outputs=(TensorSpec(name="y", shape=(1,), layout="N"),)).name_outputs([7])
            {'y': 7}
        """
        names = [tensor.name for tensor in self.outputs]
        if isinstance(outputs, Mapping):
            return {name: outputs[name] for name in names}
        return dict(zip(names, outputs, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> IOSpec:
        """The inverse of `to_dict`; `InputError` where the shape of the JSON is another."""
        return cls(
            inputs=tuple(TensorSpec.from_dict(item) for item in raw["inputs"]),
            outputs=tuple(TensorSpec.from_dict(item) for item in raw["outputs"]),
        )
