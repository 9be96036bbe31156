from .answers import Answers as Answers
from .answers import Asked as Asked
from .answers import ask as ask
from .people import UNKNOWN as UNKNOWN
from .people import Apart as Apart
from .people import Part as Part
from .people import People as People
from .people import people_of as people_of
