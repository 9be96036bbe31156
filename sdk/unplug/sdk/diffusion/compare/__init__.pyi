from .metrics import METRICS as METRICS
from .reading import read_comparison as read_comparison
from .report import ComparisonReport as ComparisonReport
from .request import CompareRequest as CompareRequest
from .run import compare_controls as compare_controls
