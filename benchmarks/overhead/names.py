"""What the rows are called; imports nothing, so that reading a report needs no torch."""

from __future__ import annotations

BARE, CONTROLNET, FULL, LIGHT, PLUGIN = (
    "base",
    "ControlNet",
    "T2I-Adapter",
    "T2I-Adapter light",
    "plugin",
)
ADAPTERS = (FULL, LIGHT, PLUGIN)
DECODER = "VAE decoder"
RESIDUALS = "residuals"
"""Stands for all adapters where only the shapes of their residuals matter, which are equal."""
