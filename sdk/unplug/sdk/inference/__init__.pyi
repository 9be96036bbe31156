from .answer import Answer as Answer
from .crop import FACE_MARGIN as FACE_MARGIN
from .embedded import Embedded as Embedded
from .embedded import load_embedded as load_embedded
from .head import DeviceHead as DeviceHead
from .head import HeadFacts as HeadFacts
from .head import load_head as load_head
from .model import run as run
