"""Age assurance: what a model is worth at an age limit, the decision that holds a limit, and
whether forgetting moved it.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
