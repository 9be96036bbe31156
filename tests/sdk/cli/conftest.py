"""The tiny base and plugin of the diffusion tests."""

from __future__ import annotations

from ..drawing.diffusion.conftest import base, base_folder, plugin_folder  # noqa: F401 (fixtures)
