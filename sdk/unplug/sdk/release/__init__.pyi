from .bundle import read_manifest as read_manifest
from .bundle import verify_bundle as verify_bundle
from .config import ReleaseConfig as ReleaseConfig
from .gates import GateResult as GateResult
from .gates import Gates as Gates
from .pipeline import Release as Release
from .pipeline import release as release
