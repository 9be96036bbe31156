"""Devices by name; third parties add theirs through the entry-point group ``unplug.devices``."""

from unplug.core import Registry

from .bench_device import Device

DEVICES: Registry[Device] = Registry(
    "device",
    {
        "android-app": "unplug.mobile_bench.apps.android:APP",
        "adb": "unplug.mobile_bench.adb.device:ADB",
        "host": "unplug.mobile_bench.devices.host:HOST",
        "ios": "unplug.mobile_bench.apps.ios:IOS",
        "web": "unplug.mobile_bench.web.device:WEB",
    },
    group="unplug.devices",
)
