from .palette import COLOURS as COLOURS
from .palette import HAIR as HAIR
from .palette import SKIN as SKIN
