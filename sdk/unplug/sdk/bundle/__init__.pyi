from .binding import EXACT as EXACT
from .bundle import Content as Content
from .bundle import Gate as Gate
from .bundle import Manifest as Manifest
from .bundle import check_free as check_free
from .bundle import read_manifest as read_manifest
from .bundle import verify_bundle as verify_bundle
from .bundle import write_bundle as write_bundle
