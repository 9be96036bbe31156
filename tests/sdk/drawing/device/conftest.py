"""The tiny base and plugin of the diffusion tests, exported whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from unplug.sdk.drawing.device import GeneratorSource, check_source, export_generator

from ..diffusion.conftest import base, base_folder, plugin_folder  # noqa: F401 (fixtures)


@pytest.fixture(scope="session")
def generator(
    base_folder: Path,  # noqa: F811
    plugin_folder: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A folder with ``pipeline.json``, in ONNX, fp32. Tests must not write to it."""
    out = tmp_path_factory.mktemp("generator") / "files"
    source = GeneratorSource(
        name="tiny",
        folder=base_folder,
        plugins={"canny": plugin_folder},
        guidance=3.0,
        schedule="linear",
    )
    check_source(source)
    export_generator(source, targets=["onnx"], precisions=["fp32"], out=out)
    return out
