"""Pictures by exported files: the audit of what ships, not of what it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from unplug.core import InputError, MissingExtraError, require_modules
from unplug.export import runtime_of
from unplug.sdk.drawing.conditions import Steering
from unplug.sdk.drawing.device import PIPELINE, Words, draw, is_generator, load_pipeline, open_files

from .findings import Unable


@dataclass(frozen=True, kw_only=True)
class ShippedFiles:
    """An exported base in one target and precision.

    Args:
        folder: the folder with ``pipeline.json``.
        target, precision: the form of all its parts.
    """

    folder: Path
    target: str
    precision: str

    @property
    def form(self) -> str:
        """The form as rows of an audit name it.

        Example:
            >>> ShippedFiles(folder=Path("f"), target="onnx", precision="fp16").form
            'onnx fp16'
        """
        return f"{self.target} {self.precision}"

    def hashes(self) -> dict[str, str]:
        """SHA-256 of each part's file, or of its folder's tree, by the part's name.

        Raises:
            ArtifactError: a file is not the one that ``pipeline.json`` names.
        """
        kind, pipeline = (self.target, self.precision), load_pipeline(self.folder)
        open_files(pipeline, self.folder, target=self.target, precision=self.precision)
        return {
            name: item.sha256
            for name, part in pipeline.parts().items()
            for item in part.files
            if (item.target, item.precision) == kind
        }

    def pictures(
        self, prompts: Sequence[str], seeds: Sequence[int], lines: Sequence[Steering] = ()
    ) -> list[Image.Image]:
        """One picture a prompt by the device's own loop, each in a process of its own.

        Args:
            prompts: N prompts.
            seeds: N seeds.
            lines: N control images, one for each prompt; or none.

        Raises:
            Unable: the folder has no such plugin, so nobody can use it.
        """
        pipeline, made = load_pipeline(self.folder), list[Image.Image]()
        if missing := {Path(one.plugin).name for one in lines} - set(pipeline.plugins):
            raise Unable(f"the files have no plugin {', '.join(sorted(missing))}")
        for number, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True)):
            own = lines[number : number + 1]
            drawn = draw(
                self.folder,
                Words(prompt=prompt),
                pipeline=pipeline,
                seeds=[seed],
                steerings=[replace(one, plugin=Path(one.plugin).name) for one in own],
                target=self.target,
                precision=self.precision,
            )
            made += map(Image.fromarray, drawn.images)
        return made


def shipped_files(folder: Path) -> Iterator[ShippedFiles | str]:
    """Every target and precision of a folder; of those that nothing here can run, why.

    Raises:
        InputError: a folder without ``pipeline.json``.
    """
    if not is_generator(folder):
        why, fix = f"it has no {PIPELINE}", "Give what `unplug export` made of the erased base"
        raise InputError(f"files {folder}", why, fix)
    pipeline = load_pipeline(folder)
    for part in pipeline.text_encoder.files:
        found = ShippedFiles(folder=folder, target=part.target, precision=part.precision)
        files = open_files(pipeline, folder, target=part.target, precision=part.precision)
        try:
            runtime = runtime_of(files["unet"])
            require_modules(runtime.modules, runtime.extra)
        except MissingExtraError as error:
            yield f"{found.form}: {error}"
        else:
            yield found
