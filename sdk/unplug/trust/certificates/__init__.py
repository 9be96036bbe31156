"""Certificates: what was done about one request, for the person, an auditor or a regulator, checked
without us.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
