"""Tiny ONNX networks with drawn weights: a whole generator and an age predictor in some kilobytes,
without a converter.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save
from tests.vectors.pipeline.make import read_tokenizer

from unplug.core import IOSpec, TensorSpec, sha256_file
from unplug.export import Card
from unplug.export.artifact import write_card
from unplug.sdk.drawing.device import LoraSlots, Slot

TOKENIZER = read_tokenizer()
TOKENS, VOCABULARY, WIDTH, SIDE, LATENT = (
    TOKENIZER.length,
    len(TOKENIZER.vocabulary),
    4,
    16,
    (2, 4, 4),
)
RESIDUAL = "adapter_res_samples_00"
EDGES = (0.0, 13.0, 18.0, 60.0)
CLASSES = ("cat", "dog", "golden eagle", "猫")
WEIGHTS = "5" * 64
"""Stands for the checkpoint's hash in cards: nothing was exported."""


def spec(name: str, *shape: int, layout: str = "NCHW", **more: Any) -> TensorSpec:
    return TensorSpec(name=name, shape=shape, layout=layout, **more)


IDS = spec("input_ids", 1, TOKENS, layout="NT", dtype="int32", range=(0.0, VOCABULARY - 1.0))
STATES = [
    spec(name, 1, TOKENS, WIDTH, layout="NTC")
    for name in ("hidden_states", "encoder_hidden_states", "negative_hidden_states")
]
GIVEN = spec(RESIDUAL, 1, 3, 2, 2)
SLOTS = LoraSlots(rank=3, slots=(Slot(layer="mix", fan_in=2, fan_out=2),))
"""Of `slotted_unet`: updates of how it mixes the channels of its latent, which the bare one leaves
alone.
"""
UPDATES = spec("lora", 1, SLOTS.rank, SLOTS.width, layout="NTC")
SPECS = {
    "text_encoder": IOSpec(inputs=(IDS,), outputs=(STATES[0],)),
    "unet": IOSpec(
        inputs=(spec("sample", 1, *LATENT), spec("timestep", 1, layout="N"), *STATES[1:], GIVEN),
        outputs=(spec("noise_pred", 1, *LATENT), spec("noise_pred_negative", 1, *LATENT)),
    ),
    "decoder": IOSpec(
        inputs=(spec("latents", 1, *LATENT),),
        outputs=(spec("image", 1, 3, SIDE, SIDE, range=(0.0, 1.0)),),
    ),
    "plugins.canny": IOSpec(
        inputs=(spec("condition", 1, 3, SIDE, SIDE, range=(-1.0, 1.0)),), outputs=(GIVEN,)
    ),
    "age": IOSpec(
        inputs=(spec("image", 1, 3, SIDE, SIDE, range=(0.0, 1.0), colour="RGB"),),
        outputs=(
            spec("age_logits", 1, len(EDGES) - 1, layout="NC"),
            spec("expected_age", 1, 1, layout="NC"),
        ),
    ),
}
SPECS["slotted_unet"] = IOSpec(
    inputs=(*SPECS["unet"].inputs, UPDATES), outputs=SPECS["unet"].outputs
)
SPECS["unguided_unet"] = IOSpec(
    inputs=tuple(item for item in SPECS["unet"].inputs if item.name != "negative_hidden_states"),
    outputs=SPECS["unet"].outputs[:1],
)
"""Asked about the prompt alone, as the UNet of a base that draws without guidance."""
SPECS["age-trunk"] = IOSpec(
    inputs=SPECS["age"].inputs, outputs=(spec("features", 1, 6, layout="NC"),)
)
SPECS["classes"] = IOSpec(
    inputs=SPECS["age"].inputs, outputs=(spec("logits", 1, len(CLASSES), layout="NC"),)
)
TYPES = {
    "text_encoder": "text_encoder",
    "unet": "guided_unet",
    "decoder": "decoder",
    "plugins.canny": "plugin",
    "age": "age",
    "age-trunk": "age-trunk",
    "classes": "classes",
    "slotted_unet": "slotted_unet",
    "unguided_unet": "unet",
}
SIZES = {
    "first.from": [0],
    "first.to": [2],
    "second.to": [4],
    "last": [2],
    "flat": [1, 2, 16],
    "square": [1, 2, 4, 4],
}
"""Constants of `slotted_unet`: where the two factors lie in a row, and the latent's shapes."""
Node = tuple[str, Sequence[str], str, dict[str, Any]]


def nodes_of(name: str, weight: Any) -> list[Node]:
    """The operators of a network; `weight` draws a constant of a shape and gives its name."""
    if name == "text_encoder":
        return [
            ("Gather", [weight(VOCABULARY, WIDTH), "input_ids"], "words", {}),
            ("Add", ["words", weight(1, TOKENS, WIDTH)], "placed", {}),
            ("Tanh", ["placed"], "hidden_states", {}),
        ]
    if name == "slotted_unet":
        mixed: list[Node] = [
            ("Slice", ["lora", "first.from", "first.to", "last"], "first", {}),
            ("Slice", ["lora", "first.to", "second.to", "last"], "second", {}),
            ("Transpose", ["second"], "second.turned", {"perm": [0, 2, 1]}),
            ("MatMul", ["second.turned", "first"], "update", {}),
            ("Reshape", ["sample", "flat"], "sample.flat", {}),
            ("MatMul", ["update", "sample.flat"], "mixed.flat", {}),
            ("Reshape", ["mixed.flat", "square"], "mixed", {}),
        ]
        plain = nodes_of("unet", weight)
        place = next(number for number, node in enumerate(plain) if node[2] == "base")
        kind, taken, given, more = plain[place]
        return [*mixed, *plain[:place], (kind, [*taken, "mixed"], given, more), *plain[place + 1 :]]
    if name == "unguided_unet":
        return [
            node
            for node in nodes_of("unet", weight)
            if not node[2].startswith("noise_pred_negative")
        ]
    if name == "unet":
        shared: list[Node] = [
            ("Conv", ["sample", weight(2, 2, 3, 3), weight(2)], "seen", {"pads": [1, 1, 1, 1]}),
            ("Mul", ["timestep", weight(1, 2, 1, 1, scale=0.002)], "time", {}),
            ("ConvTranspose", [RESIDUAL, weight(3, 2, 2, 2)], "steered", {"strides": [2, 2]}),
            ("Sum", ["seen", "time", "steered"], "base", {}),
        ]
        for states, out in (
            ("encoder_hidden_states", "noise_pred"),
            ("negative_hidden_states", "noise_pred_negative"),
        ):
            shared += [
                ("MatMul", [states, "told"], f"{out}.words", {}),
                ("ReduceMean", [f"{out}.words", "axes"], f"{out}.mean", {"keepdims": 0}),
                ("Reshape", [f"{out}.mean", "shape"], f"{out}.bias", {}),
                ("Add", ["base", f"{out}.bias"], f"{out}.sum", {}),
                ("Tanh", [f"{out}.sum"], out, {}),
            ]
        return shared
    if name == "decoder":
        return [
            (
                "ConvTranspose",
                ["latents", weight(2, 3, 4, 4), weight(3)],
                "large",
                {"strides": [4, 4]},
            ),
            ("Sigmoid", ["large"], "image", {}),
        ]
    if name == "plugins.canny":
        return [
            (
                "Conv",
                ["condition", weight(3, 3, 8, 8, scale=0.1), weight(3)],
                RESIDUAL,
                {"strides": [8, 8]},
            )
        ]
    flat = "features" if name == "age-trunk" else "flat"
    seen: list[Node] = [
        ("Conv", ["image", weight(6, 3, 3, 3), weight(6)], "seen", {"strides": [2, 2]}),
        ("Relu", ["seen"], "kept", {}),
        ("GlobalAveragePool", ["kept"], "pooled", {}),
        ("Flatten", ["pooled"], flat, {}),
    ]
    if name == "age-trunk":
        return seen
    if name == "classes":
        scored = weight(6, len(CLASSES), scale=4.0), weight(len(CLASSES))
        return [*seen, ("Gemm", ["flat", *scored], "logits", {})]
    return [
        *seen,
        ("Gemm", ["flat", weight(6, 3, scale=4.0), weight(3)], "age_logits", {}),
        ("Softmax", ["age_logits"], "odds", {"axis": 1}),
        ("MatMul", ["odds", "centers"], "expected_age", {}),
    ]


def write(folder: Path, name: str, place: str, *, checkpoint: str = WEIGHTS, seed: int = 0) -> Path:
    """A network with its card; the same bytes every time."""
    rng = np.random.default_rng([20261124, list(SPECS).index(name), *([seed] if seed else [])])
    constants: dict[str, Any] = {
        "axes": np.array([1], np.int64),
        "shape": np.array([1, 2, 1, 1], np.int64),
        "centers": np.array([[6.5], [15.5], [39.0]], np.float32),
        "told": rng.normal(size=(WIDTH, 2)).astype(np.float32) * 3,
    }
    if name == "slotted_unet":
        constants |= {label: np.array(values, np.int64) for label, values in SIZES.items()}

    def weight(*shape: int, scale: float = 0.5) -> str:
        label = f"w{len(constants)}"
        constants[label] = (rng.normal(size=shape) * scale).astype(np.float32)
        return label

    nodes = [
        helper.make_node(kind, list(taken), [given], **more)
        for kind, taken, given, more in nodes_of(name, weight)
    ]
    used = {label for node in nodes for label in node.input}
    spec_of = SPECS[name]
    sides = [
        [helper.make_tensor_value_info(item.name, kinds[item.dtype], item.shape) for item in side]
        for kinds in ({"float32": TensorProto.FLOAT, "int32": TensorProto.INT32},)
        for side in (spec_of.inputs, spec_of.outputs)
    ]
    held = [
        numpy_helper.from_array(value, label) for label, value in constants.items() if label in used
    ]
    graph = helper.make_graph(nodes, name, sides[0], sides[1], held)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 18)],
        ir_version=9,
        producer_name="unplug tests",
    )
    checker.check_model(model)
    path = folder / place / f"{TYPES[name]}.fp32.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    save(model, str(path))
    config = {"age": {"age_edges": list(EDGES)}, "classes": {"classes": list(CLASSES)}}.get(
        name, {}
    )
    card = Card(
        target="onnx",
        precision="fp32",
        file=path.name,
        sha256=sha256_file(path),
        bytes=path.stat().st_size,
        model_type=TYPES[name],
        iospec=spec_of,
        config=config,
        checkpoint_sha256=checkpoint,
        flops=None,
        versions={},
        seconds=0.0,
        prepare_seconds=0.0,
    )
    write_card(path, card)
    return path
