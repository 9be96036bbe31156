from .arrays import conditions_in_worker as conditions_in_worker
from .arrays import landmarks_in_worker as landmarks_in_worker
from .files import Drawn as Drawn
from .files import condition_file as condition_file
from .files import condition_folder as condition_folder
