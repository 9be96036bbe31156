"""A folder with one sub-folder a class, as torchvision reads it."""

from __future__ import annotations

from ..source import Listing, Sample
from .listed import FolderSource, image_files


class ImageFolderSource(FolderSource):
    """``imagefolder:DIR``: ``DIR/CLASS/anything.jpg``; images directly in DIR have no class."""

    kind, expected = "imagefolder", "Give a folder of CLASS/image.jpg"

    def listing(self) -> Listing:
        """The pictures of each class folder, with the folder's name for a label."""
        listed = image_files(self.root)
        folders = {
            path: parts[0]
            for path in listed.files
            if len(parts := path.relative_to(self.root).parts) > 1
        }
        classes = tuple(sorted(set(folders.values())))
        place = {name: number for number, name in enumerate(classes)}
        for path in listed.files:
            label = place[folders[path]] if path in folders else None
            listed.samples.append(Sample(id=listed.name(path), payload=path, label=label))
        return self.of(listed, classes=classes)
