"""The depth of drawn faces, which their renderer knows exactly: no network estimates it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unplug.core import InputError
from unplug.plugins.conditions import EXACT, Depth, build_condition, checked_size, grey, identity
from unplug.sdk.learning.data import Dataset, SynthSource, parse_spec
from unplug.sdk.learning.faces.depth import REVISION

from .arrays import Array, Found, conditions_in_worker, in_file, in_memory
from .pool import ConditionPool

CHUNK = 200
"""Depths a write: what a kill costs at most."""


def with_exact(kind: str, options: Mapping[str, str] | None, dataset: Dataset) -> dict[str, str]:
    """The settings of a condition, with the renderer's exact depth named where depth of drawn faces
    is asked for.

    A model that the settings or ``UNPLUG_DEPTH_MODEL`` name goes first. Pictures that were not
    drawn here have no exact depth: their settings stay, and `Depth.resolve` then asks for a model.
    What is named here is what records say, so that nobody takes it for a network's.

    Args:
        kind: name of the condition.
        options: its settings, see `unplug.plugins.conditions.build_condition`.
        dataset: the data set whose pictures are drawn.

    Example:
        >>> from unplug.sdk.learning.data import load_dataset
        >>> with_exact("canny", {"low": "50"}, load_dataset("synth:n=2", 32, show=False))
        {'low': '50'}
    """
    given = dict(options or {})
    condition = build_condition(kind, given)
    if not isinstance(condition, Depth) or condition.named not in ("", EXACT):
        return given
    if not condition.named and not isinstance(parse_spec(dataset.spec), SynthSource):
        return given
    return {**given, "model": EXACT, "revision": condition.revision or str(REVISION)}


def exact_depths(
    dataset: Dataset,
    options: Mapping[str, str],
    size: int,
    *,
    out: Path | None = None,
    show: bool = False,
) -> tuple[NDArray[np.uint8], Found]:
    """The exact depths of drawn faces, each scaled to 0..255 as an estimated one is; pixel by pixel
    that of the picture.

    Args:
        dataset: a data set of a ``synth:`` spec, N samples.
        options: settings that `with_exact` gave.
        size: side in pixels.
        out: the file to write, as in `conditions_in_worker`.
        show: progress bar.

    Returns:
        Depths (N, size, size, 3), nearer is lighter and the background black, and N times True.

    Raises:
        InputError: pictures that were not drawn, or another revision of the depth than this
            unplug's.
        OutputError: see `conditions_in_worker`.

    Reference:
        The scale is `unplug.plugins.conditions.grey`, MediaPipe Image Generator's.
    """
    source, condition = parse_spec(dataset.spec), build_condition("depth", options).resolve()
    assert isinstance(condition, Depth)
    if not isinstance(source, SynthSource):
        why = "these pictures were not drawn here, so their exact depth is not known"
        raise InputError(f"data {dataset.spec}", why, "Use synth: data, or name a model")
    if condition.revision != str(REVISION):
        asked = condition.revision or "none"
        why = f"revision {asked} is asked for, and this unplug has revision {REVISION}"
        raise InputError(f"depth model={EXACT}", why, "Use the unplug that trained it")
    count = len(dataset)

    def chunks(start: int) -> Generator[tuple[Array, Found], None, None]:
        pool = ConditionPool(condition, workers=1, total=count, done=start, show=show)

        def draw(first: int) -> tuple[Array, Found]:
            samples = dataset.samples[first : first + CHUNK]
            rows = np.stack([grey(source.depth(sample, size)) for sample in samples])
            pool.tick(len(samples))
            return rows, np.ones(len(rows), bool)

        with closing(pool.run(draw, range(start, count, CHUNK))) as drawn:
            yield from drawn

    shape = (count, checked_size(size), size, 3)
    if out is None:
        return in_memory(chunks, shape)
    made_of = {"condition": identity(condition), "size": size, "images": f"data {dataset.content}"}
    return in_file(chunks, shape, out, made_of)


def conditions_of(
    dataset: Dataset,
    kind: str,
    options: Mapping[str, str],
    size: int,
    *,
    out: Path | None = None,
    show: bool = False,
) -> tuple[NDArray[np.uint8], Found]:
    """The conditions of a data set's pictures: `exact_depths` where the settings name them, else
    what `conditions_in_worker` draws from the pixels, with the same arguments, answers and errors.
    """
    if options.get("model") == EXACT:
        return exact_depths(dataset, options, size, out=out, show=show)
    pictures: Any = _Pictures(dataset)
    digest = f"data {dataset.content}"
    return conditions_in_worker(kind, options, pictures, size, out=out, digest=digest, show=show)


class _Pictures:
    """All pictures in the data set's order; only what is sliced is read, as from the memory map
    under it.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset, self.dtype, self.ndim = dataset, dataset.images.dtype, 4
        self.shape = (len(dataset), *dataset.images.shape[1:])

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, part: slice) -> NDArray[np.uint8]:
        return self.dataset.pixels(range(*part.indices(len(self))))
