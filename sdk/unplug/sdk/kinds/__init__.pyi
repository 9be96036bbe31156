from .kind import KINDS as KINDS
from .kind import Kind as Kind
from .kind import kind_of as kind_of
