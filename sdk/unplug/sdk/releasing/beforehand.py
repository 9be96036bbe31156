"""What counts alone refuse: said before a model is trained, a file exported or an attack made, by
whomever a release is asked for.
"""

from __future__ import annotations

from pathlib import Path

from unplug.core import InputError
from unplug.export import check_targets, plan_pairs
from unplug.plugins import read_config
from unplug.sdk.evidence.auditing import check_forget_size
from unplug.trust.bundle import Signing, check_free
from unplug.trust.ledger import Ledger

from .gates import QUESTIONS, RULES
from .lineage import check_start
from .material import ReleaseMaterial
from .overrides import check_reasons
from .refusing import exactly
from .stages import STAGES, retraining_takes


def check_beforehand(
    material: ReleaseMaterial, out: Path, signing: Signing | None, ledger: Ledger | None
) -> None:
    """Refuses a release that cannot be made, before anything of it is. Command line, server, `answer` and
    Python all come by here and `check_gates`, through `prepare`.

    Args:
        material: the material of the release.
        out: the folder for its bundle.
        signing: the signer, and the bundles that it supersedes.
        ledger: the ledger whose answered requests must stay forgotten.

    Raises:
        InputError: a target, precision or override that there is none of; a
            stage that cannot run, see `Stage.check`; or who was forgotten would come back, see
            `check_start`.
        DataError: a request of nobody, or of nobody that the model was trained on.
        OutputError: something else is at `out`.
    """
    config = material.config
    check_free(out)
    single = material.exact or config.fleet is not None
    check_forget_size(len(material.split.forget), exact=single)
    check_start(material, out, signing, ledger)
    check_reasons(config.overrides)
    for name in config.overrides:
        if not any(question.is_named(name) for question in QUESTIONS.values()):
            why, known = "no release is judged by such a gate", ", ".join(QUESTIONS)
            raise InputError(f"`overrides` {name[:60]}", why, f"Gates: {known}")
    plan_pairs(config.targets, config.precisions)
    check_targets(read_config(material.original.path)[1], config.targets)
    for stage in STAGES:
        stage.check(material)


def check_gates(material: ReleaseMaterial) -> None:
    """Refuses a release of which a gate cannot hold, unless that gate is overridden.

    Raises:
        InputError: says what was counted, why that decides, and the way out.
    """
    config, counts = material.config, material.counts
    for rule in RULES:
        for seen in rule.foresee(config.gates, counts):
            if not any(seen.asked.is_named(name) for name in config.overrides):
                fix = seen.fix or exactly(retraining_takes(material))
                raise InputError(seen.what, seen.why, fix)
