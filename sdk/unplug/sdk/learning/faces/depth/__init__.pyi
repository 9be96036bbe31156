from .layers import BACKDROP as BACKDROP
from .layers import depth_map as depth_map
from .revision import REVISION as REVISION
