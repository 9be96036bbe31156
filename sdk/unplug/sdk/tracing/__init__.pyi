from .person import Person as Person
from .search import person_in as person_in
from .search import trace as trace
