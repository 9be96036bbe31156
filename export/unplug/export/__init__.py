"""Checkpoint to artifact, parity, and running any artifact in Python."""
