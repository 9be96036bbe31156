"""The JSON Schemas of what studies write, generated from their dataclasses."""

from benchmarks.studies.canaries import CanaryReport
from benchmarks.studies.control import ComparisonReport
from benchmarks.studies.leaderboard import LeaderboardReport

SCHEMAS: dict[str, type] = {
    "unplug-canaries-1.json": CanaryReport,
    "unplug-compare-1.json": ComparisonReport,
    "unplug-leaderboard-1.json": LeaderboardReport,
}
