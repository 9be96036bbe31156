"""Label-free SSD: its closed form on a linear model, and no label read."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from unplug.sdk.unlearning.fisher import importance
from unplug.sdk.unlearning.methods.ssd_label_free import LabelFreeSSD

from .conftest import Case, changed, coloured, unlabelled


class Linear(nn.Module):
    """z = W mean_pixels(x)."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Linear(3, 2, bias=False)

    def forward(self, image_BCHW: Tensor) -> dict[str, Tensor]:
        return {"logits": self.classifier(image_BCHW.mean(dim=(2, 3)))}


def test_importance_closed_form_on_a_linear_model(class_case: Case) -> None:
    """d ||W x||^2 / dW = 2 (W x) x^T."""
    model, data = Linear(), unlabelled(coloured(6, seed=4))
    given = class_case.problem()
    found = importance(model, given, data, lambda outputs, _: outputs["logits"].square().sum(dim=1), power=1.0)
    x_N3 = (data.image_NCHW.float() / 255).mean(dim=(2, 3))
    expected = torch.stack([(2 * (model.classifier.weight @ x)[:, None] * x[None, :]).abs() for x in x_N3]).mean(dim=0)
    assert torch.allclose(found["classifier.weight"], expected, rtol=1e-4)


def test_labels_make_no_difference(class_case: Case) -> None:
    sets = class_case.sets
    with_labels = LabelFreeSSD(alpha=1.1)(class_case.model(), class_case.problem(budget=None))
    without = class_case.problem(budget=None, retain=unlabelled(sets.train), forget=unlabelled(sets.forget))
    assert not changed(with_labels, LabelFreeSSD(alpha=1.1)(class_case.model(), without))
    assert changed(with_labels, class_case.original)
