"""Estimated latencies: from the operators of a file, calibrated on measured rows of a device or on
published numbers.
"""
