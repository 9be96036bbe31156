"""A folder with ``unplug.toml``: a model, its data and keys, which model is current, and whom it
must not know.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
