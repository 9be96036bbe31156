"""Devices by name; third parties add theirs through the entry-point group ``unplug.devices``."""

from unplug.plugins.registry import Registry

DEVICES = Registry("device", {"host": "unplug.mobile_bench.devices.host:HOST"}, group="unplug.devices")
