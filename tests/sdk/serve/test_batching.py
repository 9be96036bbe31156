"""Pictures through a model: together where they come together, by the model that they came to, and
no more than may wait.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from unplug.core import ArtifactError
from unplug.sdk.drawing.inference import Embedded, load_embedded
from unplug.sdk.drawing.inference.embedded import free_batch
from unplug.serve.batching import Batcher, Busy

PIXELS = np.zeros((4, 4, 3), np.uint8)


class Named:
    """A model that answers with its name, once it may."""

    def __init__(self, name: str) -> None:
        self.name, self.may, self.runs = name, threading.Event(), list[int]()

    def answer(self, pixels: Sequence[Any]) -> list[dict[str, Any]]:
        assert self.may.wait(30)
        self.runs.append(len(pixels))
        if self.name == "broken":
            raise ArtifactError("broken", "it says nothing")
        return [{"model": self.name} for _ in pixels]


def ask(batcher: Batcher, model: Named) -> asyncio.Task[dict[str, Any]]:
    return asyncio.create_task(batcher.answer(cast(Embedded, model), PIXELS))


def test_a_swap_leaves_who_came_before_to_the_old_model() -> None:
    async def story() -> None:
        old, new = Named("old"), Named("new")
        batcher = Batcher(batch=4, wait_seconds=0.05, waiting=50)
        running = asyncio.create_task(batcher.run())
        before = [ask(batcher, old) for _ in range(6)]
        await asyncio.sleep(0.2)
        after = [ask(batcher, new) for _ in range(3)]
        await asyncio.sleep(0)
        old.may.set()
        new.may.set()
        assert {item["model"] for item in await asyncio.gather(*before)} == {"old"}
        assert {item["model"] for item in await asyncio.gather(*after)} == {"new"}
        assert old.runs == [4, 2] and new.runs == [3]
        await batcher.drain()
        running.cancel()
        batcher.close()

    asyncio.run(story())


def test_too_many_are_told_and_an_error_reaches_those_who_asked() -> None:
    async def story() -> None:
        broken, good = Named("broken"), Named("good")
        batcher = Batcher(batch=1, wait_seconds=0, waiting=2)
        running = asyncio.create_task(batcher.run())
        first = ask(batcher, broken)
        await asyncio.sleep(0.1)
        waiting = [ask(batcher, good) for _ in range(2)]
        await asyncio.sleep(0.1)
        with pytest.raises(Busy):
            await batcher.answer(cast(Embedded, good), PIXELS)
        broken.may.set()
        good.may.set()
        with pytest.raises(ArtifactError):
            await first
        assert [item["model"] for item in await asyncio.gather(*waiting)] == ["good", "good"], (
            "the next ones are answered"
        )
        await batcher.drain()
        running.cancel()
        batcher.close()

    asyncio.run(story())


@pytest.mark.long
def test_pictures_together_are_answered_as_one_by_one(onnx_files: tuple[Path, Path]) -> None:
    model = load_embedded(onnx_files[0])
    assert model.batched
    pixels = [
        np.random.default_rng(seed).integers(0, 255, (32, 32, 3), np.uint8) for seed in range(7)
    ]
    together, apart = model.answer(pixels), [model.answer([item])[0] for item in pixels]
    assert np.allclose(
        [item["age"] for item in together], [item["age"] for item in apart], atol=3e-5
    )
    assert len({round(item["age"], 4) for item in together}) > 1, "and they differ"
    raw = onnx_files[0].read_bytes()
    assert free_batch(raw) != raw
