from .budget import Cost as Cost
from .budget import Meter as Meter
from .budget import RetrainCost as RetrainCost
from .method import METHODS as METHODS
from .method import ForgetProblem as ForgetProblem
from .method import Method as Method
from .method import build_method as build_method
from .run import forget as forget
