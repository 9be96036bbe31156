from .metrics import METRICS as METRICS
from .report import ComparisonReport as ComparisonReport
from .report import read_comparison as read_comparison
from .request import CompareRequest as CompareRequest
from .run import compare_controls as compare_controls
