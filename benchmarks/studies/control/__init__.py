"""Controls side by side: trained on one frozen base with the same batches, measured on the same
pictures.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
