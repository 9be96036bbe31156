from .bundle import read_manifest as read_manifest
from .bundle import verify_bundle as verify_bundle
from .gates import GateResult as GateResult
from .gates import Gates as Gates
from .pipeline import Release as Release
from .pipeline import ReleaseConfig as ReleaseConfig
from .pipeline import release as release
