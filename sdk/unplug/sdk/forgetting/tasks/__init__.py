"""What differs between the models that can be trained, forgotten with, audited and released; one
file each.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
