"""What stores, hubs and servers take: only what verifies, whole, the same bytes every time; their
own tools where they run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unplug.core import IOSpec, TensorSpec, sha256_file
from unplug.trust.bundle import make_key, read_trust, verify_bundle

from ...cli.calls import fail
from .test_bundle import edit, harm, make_bundle
from .test_signing import call

STORES = ("play", "ios", "hub", "triton")
SIDE = 4
PACK = "unplug-pack.json"


def small_network() -> tuple[bytes, IOSpec]:
    """Numbers of a picture, weighed; like an exported age model its `Reshape` knows a batch of one,
    and no other.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).normal(size=(3 * SIDE * SIDE, 5)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Reshape", ["image", "shape"], ["flat"], allowzero=1),
            helper.make_node("MatMul", ["flat", "weights"], ["age_logits"]),
        ],
        "age",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info("age_logits", TensorProto.FLOAT, [1, 5])],
        [
            numpy_helper.from_array(np.array([1, 3 * SIDE * SIDE]), "shape"),
            numpy_helper.from_array(weights, "weights"),
        ],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    spec = IOSpec(
        inputs=(
            TensorSpec(
                name="image",
                shape=(1, 3, SIDE, SIDE),
                layout="NCHW",
                range=(0.0, 1.0),
                colour="RGB",
            ),
        ),
        outputs=(TensorSpec(name="age_logits", shape=(1, 5), layout="NG"),),
    )
    onnx.checker.check_model(proto)
    return proto.SerializeToString(), spec


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A signed release and the public key."""
    folder = tmp_path_factory.mktemp("shipped")
    raw, spec = small_network()
    bundle = make_bundle(folder / "made", raw, name="age.fp32.onnx", iospec=spec)
    make_key(folder / "key")
    call(
        "sign",
        bundle,
        "--key",
        folder / "key",
        "--name",
        "face-age",
        "--number",
        7,
        "-o",
        folder / "seven.unplug",
    )
    return folder / "seven.unplug", folder / "key.pub"


@pytest.fixture(scope="module")
def packs(shipped: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    bundle, key = shipped
    out = tmp_path_factory.mktemp("packs")
    call(
        "pack",
        bundle,
        "--trust",
        key,
        *(word for store in STORES for word in (f"--{store}", out / store)),
    )
    return {store: out / store for store in STORES}


def tree(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): sha256_file(path)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("store", STORES)
def test_a_pack_says_what_it_is(
    packs: dict[str, Path], shipped: tuple[Path, Path], store: str
) -> None:
    record = json.loads((packs[store] / PACK).read_text())
    assert (
        record["schema"] == "unplug-pack/1"
        and record["store"] == store
        and record["warning"] is None
    )
    assert record["bundle"] == sha256_file(shipped[0] / "manifest.json")
    assert record["signed_by"] == read_trust(shipped[1]).keys[0].hint
    found = tree(packs[store])
    del found[PACK]
    assert {name: entry["sha256"] for name, entry in record["files"].items()} == found


@pytest.mark.parametrize("store", ["play", "ios", "hub"])
def test_what_a_phone_gets_verifies_again(
    packs: dict[str, Path], shipped: tuple[Path, Path], store: str
) -> None:
    (bundle,) = {path.parent for path in packs[store].rglob("model.sig")}
    assert tree(bundle) == tree(shipped[0])
    verify_bundle(bundle, read_trust(shipped[1]))


def test_the_same_bundle_the_same_pack(
    packs: dict[str, Path], shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    call("pack", shipped[0], "-o", tmp_path / "seven.zip")
    call(
        "pack",
        tmp_path / "seven.zip",
        "--trust",
        shipped[1],
        *(f"--{store}={tmp_path / store}" for store in STORES),
    )
    for store in STORES:
        assert tree(tmp_path / store) == tree(packs[store]), store
    # over an older one of ours
    call("pack", shipped[0], "--trust", shipped[1], "--ios", tmp_path / "ios")
    assert tree(tmp_path / "ios") == tree(packs["ios"])


HARM: list[tuple[str, Callable[[Path], object], str]] = [
    (
        "a changed file",
        lambda b: harm(b, "README.md", lambda raw: raw + b" "),
        "README.md was changed",
    ),
    ("a surplus file", lambda b: (b / "more").write_text("x"), "'more' is not in the manifest"),
    (
        "a link",
        lambda b: ((b / "README.md").unlink(), (b / "README.md").symlink_to("/etc/hosts")),
        "'README.md' is a link",
    ),
    (
        "a failed gate",
        lambda b: edit(b, lambda m: m["gates"][0].update(passed=False)),
        "manifest.json is not the one",
    ),
    ("no signature", lambda b: (b / "model.sig").unlink(), "it is not signed"),
]


@pytest.mark.parametrize(("what", "change", "message"), HARM, ids=[what for what, _, _ in HARM])
def test_what_does_not_verify_is_not_packed(
    shipped: tuple[Path, Path],
    tmp_path: Path,
    what: str,
    change: Callable[[Path], object],
    message: str,
) -> None:
    bundle = Path(shutil.copytree(shipped[0], tmp_path / "harmed"))
    change(bundle)
    for store in STORES:
        said = fail(
            "bundle", "pack", bundle, "--trust", shipped[1], f"--{store}", tmp_path / "out", code=1
        ).line
        assert message in said and not (tmp_path / "out").exists()


def test_what_nobody_signed_is_packed_only_where_that_is_said(
    shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    bundle = Path(shutil.copytree(shipped[0], tmp_path / "unsigned"))
    assert "nobody is trusted" in fail("bundle", "pack", bundle, "--hub", tmp_path / "out").line
    assert (
        "unknown key"
        in fail(
            "bundle", "pack", bundle, "--hub", tmp_path / "out", "--allow-unsigned", code=1
        ).line
    )
    (bundle / "model.sig").unlink()
    made = call(
        "pack",
        bundle,
        "--allow-unsigned",
        "--hub",
        tmp_path / "hub",
        "--triton",
        tmp_path / "triton",
    )
    assert made["hub"]["signed_by"] is None and "NOT SIGNED" in made["hub"]["warning"]
    assert "**not signed**" in (tmp_path / "hub" / "README.md").read_text()
    assert (tmp_path / "triton" / "face_age" / "1" / "model.onnx").is_file(), (
        "an unsigned number counts for nothing"
    )


def test_nothing_of_somebody_else_is_replaced(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    assert (
        "was not written by this command"
        in fail(
            "bundle", "pack", shipped[0], "--trust", shipped[1], "--ios", tmp_path / "mine"
        ).line
    )
    assert tree(tmp_path / "mine").keys() == {"thesis.txt"}
    assert "nothing to write" in fail("bundle", "pack", shipped[0]).line
    said = fail(
        "bundle",
        "pack",
        shipped[0],
        "--trust",
        shipped[1],
        "--play",
        tmp_path / "p",
        "--pack-name",
        "7th",
    ).line
    assert "must begin with a letter" in said
    assert (
        "no name of a folder"
        in fail(
            "bundle",
            "pack",
            shipped[0],
            "--trust",
            shipped[1],
            "--hub",
            tmp_path / "p",
            "--pack-name",
            "../p",
        ).line
    )
    assert not (tmp_path / "p").exists()


# Each store's form


@pytest.mark.parametrize(
    ("when", "play", "ios"),
    [
        ("at-install", "install-time", "essential"),
        ("after-install", "fast-follow", "prefetch"),
        ("on-demand", "on-demand", "onDemand"),
    ],
)
def test_when_it_comes(
    shipped: tuple[Path, Path], tmp_path: Path, when: str, play: str, ios: str
) -> None:
    call(
        "pack",
        shipped[0],
        "--trust",
        shipped[1],
        "--when",
        when,
        "--play",
        tmp_path / "play",
        "--ios",
        tmp_path / "ios",
    )
    module = tmp_path / "play" / "face_age"
    gradle = (module / "build.gradle.kts").read_text()
    assert 'id("com.android.ai-pack")' in gradle and 'packName.set("face_age")' in gradle
    assert f'deliveryType.set("{play}")' in gradle
    dist = "{http://schemas.android.com/apk/distribution}"
    (declared,) = ElementTree.parse(module / "src" / "main" / "AndroidManifest.xml").getroot()
    assert (
        declared.attrib == {f"{dist}type": "ai-pack"}
        and declared.find(f"{dist}delivery/{dist}{play}") is not None
    )
    assert (module / "src" / "main" / "assets" / "face_age.unplug" / "manifest.json").is_file()
    manifest = json.loads((tmp_path / "ios" / "Manifest.json").read_text())
    events = (
        {"installationEventTypes": ["firstInstallation", "subsequentUpdate"]}
        if ios != "onDemand"
        else {}
    )
    assert manifest == {
        "assetPackID": "face-age",
        "downloadPolicy": {ios: events},
        "fileSelectors": [{"directory": "face-age.unplug"}],
        "platforms": ["iOS"],
    }
    assert (tmp_path / "ios" / manifest["fileSelectors"][0]["directory"]).is_dir(), (
        "a path from where the tool is run"
    )


def test_the_hub_reads_the_card(
    packs: dict[str, Path], shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    from huggingface_hub import ModelCard

    data = ModelCard.load(packs["hub"] / "README.md").data.to_dict()
    assert data == {
        "library_name": "unplug",
        "pipeline_tag": "image-classification",
        "tags": ["unplug", "machine-unlearning", "onnx"],
    }
    text = (packs["hub"] / "README.md").read_text()
    assert "unplug bundle verify face-age.unplug --trust KEY.pub" in text
    assert sha256_file(shipped[0] / "manifest.json") in text
    for name, sha256 in tree(shipped[0] / "artifacts").items():
        assert f"| `artifacts/{name}` |" in text and sha256 in text
    assert "| forgotten &#40;gain&#41; | 0.01 | <= 0.1 |" in text
    call(
        "pack",
        shipped[0],
        "--trust",
        shipped[1],
        "--hub",
        tmp_path / "hub",
        "--license",
        "apache-2.0: [\n- x",
    )
    assert ModelCard.load(tmp_path / "hub" / "README.md").data.license == "apache-2.0: [\n- x", (
        "a text, whatever is in it"
    )


def test_a_strangers_words_are_no_markup_on_the_hub(
    shipped: tuple[Path, Path], tmp_path: Path
) -> None:
    bundle = Path(shutil.copytree(shipped[0], tmp_path / "odd"))
    (bundle / "model.sig").unlink()
    edit(bundle, lambda m: m["lineage"].update(method="x` <script>\n---\n| [a](http://b) |"))
    call("pack", bundle, "--allow-unsigned", "--hub", tmp_path / "hub")
    text = (tmp_path / "hub" / "README.md").read_text()
    assert "<script>" not in text and "](http" not in text and text.count("\n---\n") == 1


def test_triton_gets_a_network_that_takes_batches(
    packs: dict[str, Path], shipped: tuple[Path, Path]
) -> None:
    import onnxruntime

    model = packs["triton"] / "face_age" / "7" / "model.onnx"
    batch_N3HW = np.random.default_rng(1).random((6, 3, SIDE, SIDE), np.float32)
    (said,) = onnxruntime.InferenceSession(model).run(None, {"image": batch_N3HW})
    old = onnxruntime.InferenceSession(shipped[0] / "artifacts" / "age.fp32.onnx")
    singles = [old.run(None, {"image": one[None]})[0] for one in batch_N3HW]
    np.testing.assert_allclose(said, np.concatenate(singles), rtol=1e-5)


def model_config() -> Any:
    """Triton's own `ModelConfig` message, out of the package tritonclient; its file needs protobuf
    alone.
    """
    folder = os.environ.get("UNPLUG_TRITONCLIENT")
    if folder is None:
        pytest.skip("UNPLUG_TRITONCLIENT does not name a folder with the package tritonclient")
    path = Path(folder) / "grpc" / "model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("model_config_pb2", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tritons_own_message_reads_the_configuration(packs: dict[str, Path]) -> None:
    from google.protobuf import text_format

    module = model_config()
    found = text_format.Parse(
        (packs["triton"] / "face_age" / "config.pbtxt").read_text(), module.ModelConfig()
    )
    assert (found.name, found.backend) == ("face_age", "onnxruntime")
    assert found.max_batch_size == 32 and found.HasField("dynamic_batching")
    assert [(item.name, item.data_type, list(item.dims)) for item in found.input] == [
        ("image", module.DataType.Value("TYPE_FP32"), [3, SIDE, SIDE])
    ]
    assert [(item.name, list(item.dims)) for item in found.output] == [("age_logits", [5])]
    assert found.version_policy.latest.num_versions == 1


def test_triton_says_what_it_has(shipped: tuple[Path, Path], tmp_path: Path) -> None:
    words = (
        "bundle",
        "pack",
        shipped[0],
        "--trust",
        shipped[1],
        "--triton",
        tmp_path / "out",
        "--precision",
        "fp16",
    )
    assert "no ONNX file of the precision fp16; it has fp32" in fail(*words).line
    assert not (tmp_path / "out").exists()


BASE_XML = """<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="com.example.app"
    android:versionCode="1"><uses-sdk android:minSdkVersion="26" android:targetSdkVersion="35" />
    <application android:hasCode="false" /></manifest>"""


def test_bundletool_takes_the_module(packs: dict[str, Path], tmp_path: Path) -> None:
    """Google's bundletool, from an app that holds nothing but this pack; `aapt2` compiles the
    manifests.
    """
    classpath, framework = (
        os.environ.get("UNPLUG_BUNDLETOOL"),
        Path("/usr/share/android-framework-res/framework-res.apk"),
    )
    if classpath is None or not framework.is_file() or shutil.which("aapt2") is None:
        pytest.skip("UNPLUG_BUNDLETOOL names no classpath, or there is no aapt2 with its framework")
    module = packs["play"] / "face_age"
    (tmp_path / "base.xml").write_text(BASE_XML)
    modules = {}
    for name, manifest in (
        ("base", tmp_path / "base.xml"),
        ("face_age", module / "src" / "main" / "AndroidManifest.xml"),
    ):
        text = manifest.read_text().replace(
            "<manifest ", '<manifest package="com.example.app" ', 1 if name != "base" else 0
        )
        (tmp_path / "AndroidManifest.xml").write_text(text)
        linked = tmp_path / f"{name}.apk"
        subprocess.run(
            [
                "aapt2",
                "link",
                "--proto-format",
                "-I",
                framework,
                "--manifest",
                tmp_path / "AndroidManifest.xml",
                "-o",
                linked,
            ],
            check=True,
        )
        modules[name] = tmp_path / f"{name}.zip"
        with zipfile.ZipFile(linked) as source, zipfile.ZipFile(modules[name], "w") as target:
            target.writestr("manifest/AndroidManifest.xml", source.read("AndroidManifest.xml"))
            for path in (
                sorted((module / "src" / "main" / "assets").rglob("*")) if name != "base" else ()
            ):
                if path.is_file():
                    target.write(
                        path, f"assets/{path.relative_to(module / 'src' / 'main' / 'assets')}"
                    )
    java = ["java", "-cp", classpath, "com.android.tools.build.bundletool.BundleToolMain"]
    out = tmp_path / "app.aab"
    paths = ",".join(str(path) for path in modules.values())
    subprocess.run([*java, "build-bundle", f"--modules={paths}", f"--output={out}"], check=True)
    done = subprocess.run(
        [*java, "dump", "manifest", f"--bundle={out}", "--module=face_age"],
        check=True,
        capture_output=True,
    )
    assert b'dist:type="ai-pack"' in done.stdout and b"dist:fast-follow" in done.stdout
    subprocess.run([*java, "validate", f"--bundle={out}"], check=True, capture_output=True)
