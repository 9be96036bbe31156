from .answer import Answer as Answer
from .crop import FACE_MARGIN as FACE_MARGIN
from .head import DeviceHead as DeviceHead
from .head import HeadFacts as HeadFacts
from .head import load_head as load_head
from .model import run as run
