"""Which release of a model is current, which must stop, and until when that answer counts: update metadata in TUF's form."""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
