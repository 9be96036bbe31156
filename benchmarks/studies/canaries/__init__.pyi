from .bound import CanaryReport as CanaryReport
from .bound import canary_bound as canary_bound
from .bound import choose_included as choose_included
from .bound import wrong_ages as wrong_ages
from .planting import canary_report as canary_report
from .planting import plant as plant
