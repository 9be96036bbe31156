"""The palettes that faces are drawn with, by the words of prompts."""

from .._palettes import COLOURS as COLOURS
from .._palettes import HAIR as HAIR
from .._palettes import SKIN as SKIN
