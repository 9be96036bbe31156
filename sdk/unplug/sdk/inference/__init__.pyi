from .answer import Answer as Answer
from .crop import FACE_MARGIN as FACE_MARGIN
from .model import run as run
