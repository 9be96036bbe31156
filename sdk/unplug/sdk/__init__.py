"""Data, training, forgetting, auditing, releasing: `unplug.sdk.data`, `.train`, `.forget`, `.audit`, `.release`."""
