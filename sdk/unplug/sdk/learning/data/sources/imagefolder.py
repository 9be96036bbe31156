"""A folder with one sub-folder a class, as torchvision reads it."""

from __future__ import annotations

from ..source import Listing, Sample, existing_dir, not_empty
from .files import FileSource
from .listed import image_files


class ImageFolderSource(FileSource):
    """``imagefolder:DIR``: ``DIR/CLASS/anything.jpg``; images directly in DIR have no class."""

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, "imagefolder")

    def listing(self) -> Listing:
        """The pictures of each class folder, with the folder's name for a label."""
        found = image_files(self.root)
        paths = found.files
        names = [path.relative_to(self.root) for path in paths]
        classes = tuple(sorted({name.parts[0] for name in names if len(name.parts) > 1}))
        index = {name: number for number, name in enumerate(classes)}
        samples = tuple(
            Sample(
                id=name.as_posix(),
                payload=path,
                label=index[name.parts[0]] if len(name.parts) > 1 else None,
            )
            for name, path in zip(names, paths, strict=True)
        )
        not_empty(
            samples,
            found.problems,
            f"imagefolder:{self.root}",
            "Give a folder of CLASS/image.jpg",
            found.left_out,
        )
        return Listing(
            samples=samples,
            problems=tuple(found.problems),
            left_out=found.left_out,
            classes=classes,
        )
