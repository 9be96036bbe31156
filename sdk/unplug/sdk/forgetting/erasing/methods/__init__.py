"""Erasure methods, one a file."""
