"""CIFAR-10, as the original Python batches or as a tree of image files."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from unplug.core import DataError, read_regular

from ..decode import decode_file, fingerprint_file
from ..source import Listing, Partition, Sample, existing_dir
from .listed import Listed, image_files

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
MAX_BATCH_BYTES = 64 * 2**20

# The published batches are pickles of a dict of lists and one array: only what rebuilds an array
# may be named.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
}

UNPICKLING_ERRORS = (
    OSError,
    EOFError,
    pickle.UnpicklingError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ImportError,
    OverflowError,
    MemoryError,
    RecursionError,
    AssertionError,
    SystemError,
)


class CIFAR10Source:
    """``cifar10:DIR``: ``DIR/data_batch_1`` ..., or ``DIR/train/CLASS/NNNN.jpg`` and
    ``DIR/test/CLASS/NNNN.jpg``.

    Reference:
        Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
    """

    parallel: Literal["thread", "process"] = "thread"

    def __init__(self, argument: str) -> None:
        self.root = existing_dir(argument, "cifar10")

    def listing(self) -> Listing:
        """Samples with class and official partition."""
        fix = "Give the folder with data_batch_1, or with train/ and test/"
        if (self.root / "data_batch_1").is_file():
            listed = Listed(root=self.root, samples=self._from_batches())
        else:
            listed = image_files(self.root)
            listed.samples = self._from_tree(listed)
        return listed.listing(f"cifar10:{self.root}", fix, classes=CLASSES)

    def _from_tree(self, listed: Listed) -> list[Sample]:
        samples = []
        for path in listed.files:
            part, name = path.relative_to(self.root).parts[0], path.parent.name
            if part in ("train", "test") and name in CLASSES:
                partition: Partition = "train" if part == "train" else "test"
                label = CLASSES.index(name)
                samples.append(
                    Sample(id=listed.name(path), payload=path, label=label, partition=partition)
                )
            else:
                listed.leave(listed.name(path), "in no train/CLASS or test/CLASS of CIFAR-10")
        return samples

    def _from_batches(self) -> list[Sample]:
        samples = []
        for batch in BATCHES:
            pixels_N3HW, labels = _read_batch(self.root / batch)
            partition: Partition = "test" if batch == "test_batch" else "train"
            for index, label in enumerate(labels):
                pixels_HW3 = np.ascontiguousarray(pixels_N3HW[index].transpose(1, 2, 0))
                samples.append(
                    Sample(
                        id=f"{batch}/{index:05d}",
                        payload=pixels_HW3,
                        label=label,
                        partition=partition,
                    )
                )
        return samples

    def fingerprint(self, sample: Sample) -> bytes:
        """SHA-256 of the file or of the 3,072 pixel values."""
        if isinstance(sample.payload, Path):
            return fingerprint_file(sample.payload)
        return hashlib.sha256(sample.payload.tobytes()).digest()

    def decode(self, sample: Sample, size: int) -> NDArray[np.uint8]:
        """The picture as RGB pixels (size, size, 3), uint8."""
        if isinstance(sample.payload, Path):
            return decode_file(sample.payload, size)
        image = Image.fromarray(sample.payload).resize((size, size), Image.Resampling.BILINEAR)
        return np.asarray(image, dtype=np.uint8)


class _ArrayUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no CIFAR-10 batch needs")
        return super().find_class(module, name)


def _read_batch(path: Path) -> tuple[NDArray[np.uint8], list[int]]:
    try:
        packed = read_regular(
            path, max_bytes=MAX_BATCH_BYTES, error=DataError, too_large="Unpack the archive again"
        )
        raw = _ArrayUnpickler(io.BytesIO(packed), encoding="bytes").load()
        pixels = np.asarray(raw[b"data"], dtype=np.uint8).reshape(-1, 3, 32, 32)
        labels = [int(label) for label in raw[b"labels"]]
    except UNPICKLING_ERRORS as error:
        raise DataError(
            str(path), f"not a CIFAR-10 batch ({error})", "Unpack the archive again"
        ) from error
    if len(labels) != len(pixels) or not all(0 <= label < len(CLASSES) for label in labels):
        raise DataError(str(path), "labels and images do not match", "Unpack the archive again")
    return pixels, labels
