from .attack import ATTACKS as ATTACKS
from .attack import Attack as Attack
from .attack import Signals as Signals
from .predictor import ArtifactPredictor as ArtifactPredictor
from .predictor import CheckpointPredictor as CheckpointPredictor
from .predictor import Predictor as Predictor
from .report import AuditReport as AuditReport
from .run import audit as audit
