from .layers import BACKDROP as BACKDROP
from .layers import REVISION as REVISION
from .layers import depth_map as depth_map
