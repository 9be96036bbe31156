from .person import Person as Person
from .recorded import TracedSearch as TracedSearch
from .recorded import search_for as search_for
from .search import person_in as person_in
from .search import trace as trace
