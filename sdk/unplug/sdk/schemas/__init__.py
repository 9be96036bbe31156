"""The JSON Schemas of this package's files, generated from their dataclasses."""

from ..audit.report import AuditReport
from ..diffusion.compare.report import ComparisonReport
from ..leaderboard.report import LeaderboardReport
from ..release.bundle import Manifest
from ..report.schemas import FaceSheet, PluginRecord, Record, Release

SCHEMAS: dict[str, type] = {
    "unplug-audit-1.json": AuditReport,
    "unplug-bundle-1.json": Manifest,
    "unplug-checkpoint-1.json": Record,
    "unplug-compare-1.json": ComparisonReport,
    "unplug-faces-1.json": FaceSheet,
    "unplug-leaderboard-1.json": LeaderboardReport,
    "unplug-plugin-1.json": PluginRecord,
    "unplug-release-1.json": Release,
}
