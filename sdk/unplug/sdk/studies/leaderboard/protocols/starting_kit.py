"""The challenge's starting kit: CIFAR-10, ResNet-18, a tenth of train forgotten, a logistic attack on the loss."""

from __future__ import annotations

from unplug.sdk.training import Recipe

from ..picks import fraction, halved_test
from ..protocol import Override, Protocol, Published

STARTING_KIT = Protocol(
    name="starting-kit",
    summary=(
        "CIFAR-10 and ResNet-18 as in the challenge's starting kit: a random tenth of the training set is forgotten, the "
        "official test set is halved into validation and test, and a logistic regression on the loss attacks. Fine-tuning "
        "runs with the kit's own settings (SGD 0.1, momentum 0.9, weight decay 5e-4, cosine, 5 epochs), far over the budget "
        "of the others. The originals are trained with unplug's recipe (AdamW, one cycle), not with the kit's weights."
    ),
    kind="class",
    recipe=Recipe(
        size="resnet18", image_size=32, epochs=12, batch_size=128, augment="flip", dropout=0.0, lr=2e-3, weight_decay=5e-4,
        loss="ce",
    ),
    data_help="cifar10:DIR",
    split=halved_test,
    pick=fraction(0.1),
    rank="attack",
    originals=2,
    models=8,
    overrides={"finetune": Override(settings={"lr": "0.1", "optimizer": "sgd", "batch_size": "128"}, epochs=5.0)},
    published=(
        Published(model="original", metric="logistic_accuracy", value=0.579),
        Published(model="finetune", metric="logistic_accuracy", value=0.512),
        Published(model="retrained", metric="logistic_accuracy", value=0.502),
    ),
)  # fmt: skip
