"""The base of random weights that diffusion's tests have."""

from __future__ import annotations

from ...drawing.diffusion.conftest import base as base
from ...drawing.diffusion.conftest import base_folder as base_folder
