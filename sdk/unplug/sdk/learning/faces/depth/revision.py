"""Which depth it is; apart from what computes it, so that asking loads no OpenCV."""

REVISION = 1
"""Raised with every change that gives another depth: records keep it, and caches are made again."""
