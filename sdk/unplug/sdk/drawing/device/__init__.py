"""A generator of exported files: words and conditions in, a picture out, by NumPy and one runtime,
without torch.

It is the reference that the apps' loops are ported from: docs/formats.md says every step in words,
and ``tests/vectors/pipeline`` has numbers for each. Shapes: C latent channels, H and W of the
latent or of a picture, T tokens, S steps.
"""

from unplug.core import attach

__getattr__, __all__ = attach(__name__, __file__)
