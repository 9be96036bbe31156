"""Honest timing: devices, protocol, statistics."""
