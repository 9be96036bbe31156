"""Pictures on their way through a model: a few at once, and a new model in its place between two
runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from numpy import uint8
from numpy.typing import NDArray

from unplug.core import UnplugError
from unplug.sdk.drawing.inference import Embedded

DRAIN_SECONDS = 20.0


class Busy(UnplugError):
    """More wait than may."""


@dataclass(frozen=True, kw_only=True)
class _Picture:
    """A picture and the model that was current when it came: that one answers it, also after a
    swap.
    """

    model: Embedded
    pixels: NDArray[uint8]
    answer: asyncio.Future[dict[str, Any]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Batcher:
    """Runs one model after the other; belongs to one event loop.

    Args:
        batch: most pictures in one run.
        wait_seconds: how long the first of a run waits for others.
        waiting: pictures that may wait.
        ran: told of each run: the model and how many pictures.
    """

    def __init__(
        self,
        *,
        batch: int,
        wait_seconds: float,
        waiting: int,
        ran: Callable[[Embedded, int], None] = lambda *_: None,
    ) -> None:
        self._batch, self._wait, self._ran = batch, wait_seconds, ran
        self._queue: asyncio.Queue[_Picture] = asyncio.Queue(waiting)
        self._model: Embedded | None = None
        self._left: _Picture | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="model")

    @property
    def model(self) -> Embedded | None:
        """The one that answers pictures that come now."""
        return self._model

    def swap(self, model: Embedded) -> None:
        """This model answers from here on; pictures that came before are answered by the model that
        they came to.
        """
        self._model = model

    async def drain(self) -> None:
        """Waits until the pictures that came are answered, as long as that may take; `close`
        follows.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._queue.join(), DRAIN_SECONDS)

    def close(self) -> None:
        """Lets go of what runs the model."""
        self._executor.shutdown(wait=False)

    async def answer(self, model: Embedded, pixels: NDArray[uint8]) -> dict[str, Any]:
        """What a model says of one picture.

        Args:
            model: the one that cut the picture to its size.
            pixels: pixels from `Embedded.pixels`.

        Raises:
            Busy: too many wait.
        """
        picture = _Picture(model=model, pixels=pixels)
        try:
            self._queue.put_nowait(picture)
        except asyncio.QueueFull as error:
            raise Busy(
                "the model", "too many pictures wait for it", "Try again in a moment"
            ) from error
        return await picture.answer

    async def run(self) -> None:
        """Answers pictures, for ever."""
        loop = asyncio.get_running_loop()
        while True:
            pictures = [self._left or await self._queue.get()]
            self._left = None
            try:
                self._left = await self._more(pictures, loop.time() + self._wait)
                await self._answer(pictures)
            except BaseException as error:  # callers that wait must be told, whatever it is
                ended = not isinstance(error, Exception)
                why = (
                    Busy("the model", "what runs it was ended", "Try again in a moment")
                    if ended
                    else error
                )
                for picture in pictures:
                    if not picture.answer.done():
                        picture.answer.set_exception(why)
                if ended:
                    raise
            finally:
                for _ in pictures:
                    self._queue.task_done()

    async def _answer(self, pictures: list[_Picture]) -> None:
        model = pictures[0].model
        pixels = [picture.pixels for picture in pictures]
        loop = asyncio.get_running_loop()
        answers = await loop.run_in_executor(self._executor, model.answer, pixels)
        for picture, answer in zip(pictures, answers, strict=True):
            if not picture.answer.done():  # its reader may be gone
                picture.answer.set_result(answer)
        self._ran(model, len(pictures))

    async def _more(self, pictures: list[_Picture], until: float) -> _Picture | None:
        """Adds what comes in time; returns the first picture of another model, which opens the next
        run.
        """
        loop = asyncio.get_running_loop()
        while len(pictures) < self._batch:
            try:
                async with asyncio.timeout(max(0.0, until - loop.time())):
                    picture = await self._queue.get()
            except TimeoutError:
                return None
            if picture.model is not pictures[0].model:
                return picture
            pictures.append(picture)
        return None
