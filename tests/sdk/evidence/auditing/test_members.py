"""The audit of a family: every member next to its own original and its own refit, none silently
left out.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.once import once

from unplug.core import ArtifactError, CheckpointError, write_json
from unplug.export import card_path, export_checkpoint
from unplug.plugins import MEMBERS, load_checkpoint
from unplug.sdk import journey
from unplug.sdk.cli.audit import summary
from unplug.sdk.evidence.auditing import AuditReport, called
from unplug.sdk.forgetting.unlearning import members_of
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.report import collect
from unplug.sdk.report.models import main_models
from unplug.sdk.report.verdict import verdict

from ...forgetting.unlearning.designs.test_family import PERSONAL, SIDE
from ...forgetting.unlearning.designs.test_family import make as trained

GONE, ROLES = 40, ("original", "unlearned", "retrained")


@pytest.fixture
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = once(tmp_path_factory, "family", trained)

    def make(root: Path) -> None:
        shutil.copytree(source / "family", root / "original")
        data = load_dataset(PERSONAL, SIDE, show=False)
        gone = make_split(data, seed=0).train[:GONE]
        (root / "who.txt").write_text("\n".join(gone))
        for out, method in (("unlearned", None), ("retrained", "retrain")):
            how: dict[str, Any] = {"device": "cpu", "show": False}
            journey.unlearn(root / "original", data, gone, method=method, out=root / out, **how)

    return once(tmp_path_factory, "audited-family", make)


def audited(here: Path, *models: Path, **how: Any) -> AuditReport:
    known = {"original": here / "original", "device": "cpu", "show": False, "rounding": False}
    return journey.audit(models, PERSONAL, here / "who.txt", **{**known, **how})


def exported(folder: Path, out: Path) -> Path:
    (file,) = export_checkpoint(folder, targets=["onnx"], precisions=["fp32"], out=out)
    return file.path


def names(here: Path) -> list[str]:
    return list(members_of(load_checkpoint(here / "original")))


def test_each_member_stands_next_to_its_own_original_and_refit(here: Path, tmp_path: Path) -> None:
    report = audited(here, here / "unlearned", retrained=here / "retrained")
    models = {model.name: model for model in report.models}
    first, second = names(here)
    assert list(models) == [called(role, name) for name in (None, first, second) for role in ROLES]
    for name, model in models.items():
        role, _, member = name.partition(f"/{MEMBERS}/")
        place = here / role / (f"{MEMBERS}/{member}" if member else "")
        assert (model.role, model.member) == (role, member or None)
        assert model.sha256 == load_checkpoint(place).sha256
    for member in (first, second):  # the same bits as its own refit: no attack sees a difference
        attacks = models[called("unlearned", member)].attacks
        assert attacks and {row.gap.value for row in attacks.values() if row.gap} == {0.0}
        before = models[called("original", member)].attacks["loss"]
        assert before.auc.value > attacks["loss"].auc.value
    assert not report.alarms and "oracle" not in report.skipped
    text = "\n".join(summary(report))
    assert f"unlearned/members/{first}: what attacks see" in text
    report.save(tmp_path / "audit.json")
    (told,) = (
        line for line in verdict(collect([tmp_path / "audit.json"])).facts if "phone" in line
    )
    assert "any of the 3 models" in told


def test_a_planted_file_of_a_member_raises_an_alarm_that_names_it(
    here: Path, tmp_path: Path
) -> None:
    """The member's file holds the original's weights, under a card that says otherwise; the file
    of the reference is honest.
    """
    member = names(here)[0]
    place = f"{MEMBERS}/{member}"
    planted = exported(here / "original" / place, tmp_path / "planted")
    card = json.loads(card_path(planted).read_text())
    card["checkpoint_sha256"] = load_checkpoint(here / "unlearned" / place).sha256
    write_json(card_path(planted), card)
    honest = exported(here / "unlearned", tmp_path / "honest")
    report = audited(here, here / "unlearned", honest, planted, retrained=here / "retrained")
    name = f"{place}/{planted.name}"
    mine, original = report.model(name), report.model(called("original", member))
    assert mine.member == member and report.model(honest.name).member is None
    for attack in ("loss", "error"):
        assert mine.attacks[attack].auc.value == pytest.approx(original.attacks[attack].auc.value)
    assert "not-forgotten" in {alarm.kind for alarm in report.alarms}
    assert {alarm.model for alarm in report.alarms} == {name}


def test_a_member_with_the_originals_weights_is_refused(here: Path, tmp_path: Path) -> None:
    member = names(here)[0]
    shutil.copytree(here / "unlearned", planted := tmp_path / "unlearned")
    shutil.rmtree(planted / MEMBERS / member)
    shutil.copytree(here / "original" / MEMBERS / member, planted / MEMBERS / member)
    with pytest.raises(CheckpointError, match="its head is not that of the family"):
        audited(here, planted)
    shutil.rmtree(planted / MEMBERS / member)
    with pytest.raises(CheckpointError, match=member):
        audited(here, planted)
    for role in ("unlearned", "retrained"):
        alone = here / role / MEMBERS / member
        models = [alone] if role == "unlearned" else [here / "unlearned"]
        how = {} if role == "unlearned" else {"retrained": alone}
        with pytest.raises(CheckpointError, match="it is a member: its family is audited"):
            audited(here, *models, **how)


def without(folder: Path, member: str, out: Path) -> Path:
    """A family that has lost a member, as its record says."""
    shutil.copytree(folder, out)
    record = json.loads((out / "unplug.json").read_text())
    for known in ("members", "errors"):
        del record["design"][known][member]
    write_json(out / "unplug.json", record)
    shutil.rmtree(out / MEMBERS / member)
    return out


def test_what_cannot_be_compared_is_told(here: Path, tmp_path: Path) -> None:
    first, second = names(here)
    unlearned = without(here / "unlearned", second, tmp_path / "unlearned")
    retrained = without(here / "retrained", first, tmp_path / "retrained")
    report = audited(here, unlearned, retrained=retrained)
    assert [model.name for model in report.models if model.member == first] == [
        called(role, first) for role in ROLES[:2]
    ]
    assert not any(model.member == second for model in report.models)
    told = report.skipped
    assert told[called("unlearned", second)] == "it has no such member"
    assert told[f"{MEMBERS}/{first}: oracle"].startswith("the retrained model has no such member")
    report.save(tmp_path / "audit.json")
    models = main_models(collect([tmp_path / "audit.json"]))
    assert {model.member for model in models.values()} == {first}  # of it nothing is shown
    record = json.loads((retrained / "unplug.json").read_text())
    record["design"]["reference"] = "another"
    record["design"]["errors"]["another"] = record["design"]["errors"].pop(
        next(name for name in record["design"]["errors"] if name != second)
    )
    write_json(retrained / "unplug.json", record)
    with pytest.raises(CheckpointError, match="the reference of its family is another"):
        audited(here, unlearned, retrained=retrained)


def test_files_alone_find_their_member(here: Path, tmp_path: Path) -> None:
    """By their place, as bundles have it; else by the form of the network, unless two have it."""
    first, _ = names(here)
    file = exported(here / "unlearned" / MEMBERS / first, tmp_path / MEMBERS / first)
    loose = tmp_path / "files"
    loose.mkdir()
    for path in (file, card_path(file)):
        shutil.copy(path, loose / path.name)
    for path in (file, loose / file.name):
        (model,) = (item for item in audited(here, path).models if item.role == "artifact")
        assert (model.member, model.name) == (first, f"{MEMBERS}/{first}/{file.name}")
    card = json.loads(card_path(loose / file.name).read_text())
    card["config"]["size"] = "unknown"
    write_json(card_path(loose / file.name), card)
    with pytest.raises(ArtifactError, match="nothing tells of which member"):
        audited(here, loose / file.name)
