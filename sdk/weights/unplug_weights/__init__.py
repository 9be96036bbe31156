"""The weights that ship with unplug: data alone. `unplug.sdk` finds them by this name, and checks
each file by its SHA-256.
"""

__version__ = "1.0.0"
