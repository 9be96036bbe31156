from .canny import Canny as Canny
from .condition import CONDITIONS as CONDITIONS
from .condition import Condition as Condition
from .condition import build_condition as build_condition
from .condition import identity as identity
from .depth import Depth as Depth
from .face_landmark import FaceLandmark as FaceLandmark
from .holistic import Holistic as Holistic
