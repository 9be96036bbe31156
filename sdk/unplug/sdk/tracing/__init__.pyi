from .place import Person as Person
from .place import Place as Place
from .place import Standing as Standing
from .search import person_in as person_in
from .search import trace as trace
