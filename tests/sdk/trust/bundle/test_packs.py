"""What stores, hubs and servers take: only what verifies, whole, the same bytes every time; their
own tools where they run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
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

from ..commands import called, refused
from .test_bundle import edit, harm, make_bundle, relinked

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
    image = {"layout": "NCHW", "range": (0.0, 1.0), "colour": "RGB"}
    spec = IOSpec(
        inputs=(TensorSpec(name="image", shape=(1, 3, SIDE, SIDE), **image),),
        outputs=(TensorSpec(name="age_logits", shape=(1, 5), layout="NG"),),
    )
    onnx.checker.check_model(proto)
    return proto.SerializeToString(), spec


Shipped = tuple[Path, Path]
Packs = dict[str, Path]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """A signed release and the public key."""
    folder = tmp_path_factory.mktemp("shipped")
    raw, spec = small_network()
    bundle = make_bundle(folder / "made", raw, name="age.fp32.onnx", iospec=spec)
    make_key(folder / "key")
    out = folder / "seven.unplug"
    called(f"bundle sign {bundle} --sign {folder}/key --name face-age --number 7 -o {out}")
    return out, folder / "key.pub"


def all_stores(folder: Path) -> str:
    return " ".join(f"--{store} {folder}/{store}" for store in STORES)


@pytest.fixture(scope="module")
def packs(shipped: Shipped, tmp_path_factory: pytest.TempPathFactory) -> Packs:
    bundle, key = shipped
    out = tmp_path_factory.mktemp("packs")
    called(f"bundle pack {bundle} --trust {key} {all_stores(out)}")
    return {store: out / store for store in STORES}


def tree(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}


@pytest.mark.parametrize("store", STORES)
def test_a_pack_says_what_it_is(packs: Packs, shipped: Shipped, store: str) -> None:
    record = json.loads((packs[store] / PACK).read_text())
    assert (record["schema"], record["store"]) == ("unplug-pack/1", store)
    assert record["warning"] is None
    assert record["bundle"] == sha256_file(shipped[0] / "manifest.json")
    assert record["signed_by"] == read_trust(shipped[1]).keys[0].hint
    there = tree(packs[store])
    del there[PACK]
    assert {name: entry["sha256"] for name, entry in record["files"].items()} == there


@pytest.mark.parametrize("store", ["play", "ios", "hub"])
def test_what_a_phone_gets_verifies_again(packs: Packs, shipped: Shipped, store: str) -> None:
    (bundle,) = {path.parent for path in packs[store].rglob("model.sig")}
    assert tree(bundle) == tree(shipped[0])
    verify_bundle(bundle, read_trust(shipped[1]))


def test_the_same_bundle_the_same_pack(packs: Packs, shipped: Shipped, tmp_path: Path) -> None:
    bundle, key = shipped
    called(f"bundle pack {bundle} -o {tmp_path}/seven.zip")
    called(f"bundle pack {tmp_path}/seven.zip --trust {key} {all_stores(tmp_path)}")
    for store in STORES:
        assert tree(tmp_path / store) == tree(packs[store]), store
    # over an older one of ours
    called(f"bundle pack {bundle} --trust {key} --ios {tmp_path}/ios")
    assert tree(tmp_path / "ios") == tree(packs["ios"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda b: harm(b, "README.md", lambda raw: raw + b" "),
            "README.md was changed",
        ),
        (lambda b: (b / "more").write_text("x"), "'more' is not in the manifest"),
        (lambda b: relinked(b / "README.md"), "'README.md' is a link"),
        (
            lambda b: edit(b, lambda m: m["gates"][0].update(passed=False)),
            "manifest.json is not the one",
        ),
        (lambda b: (b / "model.sig").unlink(), "it is not signed"),
    ],
)
def test_what_does_not_verify_is_not_packed(
    shipped: Shipped, tmp_path: Path, change: Callable[[Path], object], message: str
) -> None:
    bundle = Path(shutil.copytree(shipped[0], tmp_path / "harmed"))
    change(bundle)
    for store in STORES:
        pack = f"bundle pack {bundle} --trust {shipped[1]} --{store} {tmp_path}/out"
        assert message in refused(pack, code=1) and not (tmp_path / "out").exists()


def test_what_nobody_signed_is_packed_only_where_that_is_told(
    shipped: Shipped, tmp_path: Path
) -> None:
    bundle = Path(shutil.copytree(shipped[0], tmp_path / "unsigned"))
    pack = f"bundle pack {bundle} --hub {tmp_path}/hub"
    assert "nobody is trusted" in refused(pack)
    assert "unknown key" in refused(f"{pack} --allow-unsigned", code=1)
    (bundle / "model.sig").unlink()
    made = called(f"{pack} --allow-unsigned --triton {tmp_path}/triton")
    assert made["hub"]["signed_by"] is None and "NOT SIGNED" in made["hub"]["warning"]
    assert "**not signed**" in (tmp_path / "hub" / "README.md").read_text()
    # an unsigned number counts for nothing
    assert (tmp_path / "triton" / "face_age" / "1" / "model.onnx").is_file()


def test_what_cannot_be_packed_is_one_line(shipped: Shipped, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    bundle, out = shipped[0], tmp_path / "out"
    assert "nothing to write" in refused(f"bundle pack {bundle}")
    for words, why in (
        (f"--ios {tmp_path}/mine", "was not written by this command"),
        (f"--play {out} --pack-name 7th", "must begin with a letter"),
        (f"--hub {out} --pack-name ../p", "not the name of a folder"),
        (
            f"--triton {out} --precision fp16",
            "no ONNX file of the precision fp16; it has fp32",
        ),
    ):
        assert why in refused(f"bundle pack {bundle} --trust {shipped[1]} {words}")
        assert not out.exists() and tree(tmp_path / "mine").keys() == {"thesis.txt"}


# Each store's form

EVENTS = {"installationEventTypes": ["firstInstallation", "subsequentUpdate"]}


@pytest.mark.parametrize(
    ("when", "play", "ios"),
    [
        ("at-install", "install-time", {"essential": EVENTS}),
        ("after-install", "fast-follow", {"prefetch": EVENTS}),
        ("on-demand", "on-demand", {"onDemand": {}}),
    ],
)
def test_when_it_comes(
    shipped: Shipped, tmp_path: Path, when: str, play: str, ios: dict[str, Any]
) -> None:
    bundle, key = shipped
    called(
        f"bundle pack {bundle} --trust {key} --when {when} --play {tmp_path}/play "
        f"--ios {tmp_path}/ios"
    )
    module = tmp_path / "play" / "face_age"
    gradle = (module / "build.gradle.kts").read_text()
    assert 'id("com.android.ai-pack")' in gradle and 'packName.set("face_age")' in gradle
    assert f'deliveryType.set("{play}")' in gradle
    dist = "{http://schemas.android.com/apk/distribution}"
    (declared,) = ElementTree.parse(module / "src" / "main" / "AndroidManifest.xml").getroot()
    assert declared.attrib == {f"{dist}type": "ai-pack"}
    assert declared.find(f"{dist}delivery/{dist}{play}") is not None
    assert (module / "src" / "main" / "assets" / "face_age.unplug" / "manifest.json").is_file()
    assert json.loads((tmp_path / "ios" / "Manifest.json").read_text()) == {
        "assetPackID": "face-age",
        "downloadPolicy": ios,
        "fileSelectors": [{"directory": "face-age.unplug"}],
        "platforms": ["iOS"],
    }
    assert (tmp_path / "ios" / "face-age.unplug").is_dir(), "a path from where the tool is run"


def test_the_hub_reads_the_card(packs: Packs, shipped: Shipped, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    told = ModelCard.load(packs["hub"] / "README.md", ignore_metadata_errors=False).data
    assert (told.library_name, told.pipeline_tag) == ("unplug-sdk", "image-classification")
    assert told.tags == ["unplug", "machine-unlearning", "onnx"] and told.model_name == "face-age"
    measured = {one.metric_type: one.metric_value for one in told.eval_results}
    assert measured["forgotten (gain)"] == 0.01 and "utility" in measured
    assert {one.dataset_name for one in told.eval_results} == {f"digest {'0' * 16}"}
    text = (packs["hub"] / "README.md").read_text()
    assert "unplug bundle verify face-age.unplug --trust KEY.pub" in text
    assert sha256_file(shipped[0] / "manifest.json") in text
    for name, sha256 in tree(shipped[0] / "artifacts").items():
        assert f"| `artifacts/{name}` |" in text and sha256 in text
    assert "| forgotten &#40;gain&#41; | 0.01 | <= 0.1 |" in text
    odd = "apache-2.0: [\n- x"
    called(f"bundle pack {shipped[0]} --trust {shipped[1]} --hub {tmp_path}/hub --license '{odd}'")
    assert ModelCard.load(tmp_path / "hub" / "README.md").data.license == odd, "a text"


def test_onnx_runtime_opens_it_as_the_card_says(
    packs: Packs, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (packs["hub"] / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert "unplug import" not in code and "import unplug" not in code
    monkeypatch.chdir(packs["hub"])
    exec(compile(code, "README.md", "exec", dont_inherit=True), {})
    assert (
        capsys.readouterr().out.splitlines()[-1] == "[array([[0., 0., 0., 0., 0.]], dtype=float32)]"
    )


def test_a_strangers_words_are_no_markup_on_the_hub(shipped: Shipped, tmp_path: Path) -> None:
    bundle = Path(shutil.copytree(shipped[0], tmp_path / "odd"))
    (bundle / "model.sig").unlink()
    edit(bundle, lambda m: m["lineage"].update(method="x` <script>\n---\n| [a](http://b) |"))
    called(f"bundle pack {bundle} --allow-unsigned --hub {tmp_path}/hub")
    text = (tmp_path / "hub" / "README.md").read_text()
    assert "<script>" not in text and "](http" not in text and text.count("\n---\n") == 1


def test_triton_gets_a_network_that_takes_batches(packs: Packs, shipped: Shipped) -> None:
    import onnxruntime

    model = packs["triton"] / "face_age" / "7" / "model.onnx"
    batch_N3HW = np.random.default_rng(1).random((6, 3, SIDE, SIDE), np.float32)
    (logits_NG,) = onnxruntime.InferenceSession(model).run(None, {"image": batch_N3HW})
    old = onnxruntime.InferenceSession(shipped[0] / "artifacts" / "age.fp32.onnx")
    singles = [old.run(None, {"image": one[None]})[0] for one in batch_N3HW]
    np.testing.assert_allclose(logits_NG, np.concatenate(singles), rtol=1e-5)


def test_tritons_own_message_reads_the_configuration(packs: Packs) -> None:
    """`ModelConfig`, out of the package tritonclient; its file needs protobuf alone."""
    from google.protobuf import text_format

    folder = os.environ.get("UNPLUG_TRITONCLIENT")
    if folder is None:
        pytest.skip("UNPLUG_TRITONCLIENT does not name a folder with the package tritonclient")
    path = Path(folder) / "grpc" / "model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("model_config_pb2", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (packs["triton"] / "face_age" / "config.pbtxt").read_text()
    config = text_format.Parse(text, module.ModelConfig())
    assert (config.name, config.backend) == ("face_age", "onnxruntime")
    assert config.max_batch_size == 32 and config.HasField("dynamic_batching")
    ((name, kind, dims),) = [(row.name, row.data_type, [*row.dims]) for row in config.input]
    assert (name, dims) == ("image", [3, SIDE, SIDE])
    assert kind == module.DataType.Value("TYPE_FP32")
    assert [(row.name, list(row.dims)) for row in config.output] == [("age_logits", [5])]
    assert config.version_policy.latest.num_versions == 1


BASE_XML = """<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="com.example.app"
    android:versionCode="1"><uses-sdk android:minSdkVersion="26" android:targetSdkVersion="35" />
    <application android:hasCode="false" /></manifest>"""
FRAMEWORK = Path("/usr/share/android-framework-res/framework-res.apk")


def module_zip(folder: Path, name: str, manifest: str, assets: Path | None) -> Path:
    """A module as bundletool takes it; `aapt2` compiles its manifest."""
    (folder / "AndroidManifest.xml").write_text(manifest)
    linked, out = folder / f"{name}.apk", folder / f"{name}.zip"
    link = f"aapt2 link --proto-format -I {FRAMEWORK} --manifest {folder}/AndroidManifest.xml"
    subprocess.run([*link.split(), "-o", linked], check=True)
    with zipfile.ZipFile(linked) as source, zipfile.ZipFile(out, "w") as target:
        target.writestr("manifest/AndroidManifest.xml", source.read("AndroidManifest.xml"))
        for path in sorted(assets.rglob("*")) if assets else ():
            if path.is_file():
                target.write(path, f"assets/{path.relative_to(assets)}")
    return out


def test_bundletool_takes_the_module(packs: Packs, tmp_path: Path) -> None:
    """Google's bundletool, from an app that holds nothing but this pack."""
    classpath = os.environ.get("UNPLUG_BUNDLETOOL")
    if classpath is None or not FRAMEWORK.is_file() or shutil.which("aapt2") is None:
        pytest.skip("UNPLUG_BUNDLETOOL names no classpath, or there is no aapt2 with its framework")
    main = packs["play"] / "face_age" / "src" / "main"
    package = '<manifest package="com.example.app" '
    manifest = (main / "AndroidManifest.xml").read_text().replace("<manifest ", package, 1)
    base = module_zip(tmp_path, "base", BASE_XML, None)
    pack = module_zip(tmp_path, "face_age", manifest, main / "assets")

    def bundletool(words: str) -> bytes:
        java = ["java", "-cp", classpath, "com.android.tools.build.bundletool.BundleToolMain"]
        return subprocess.run([*java, *words.split()], check=True, capture_output=True).stdout

    out = tmp_path / "app.aab"
    bundletool(f"build-bundle --modules={base},{pack} --output={out}")
    dumped = bundletool(f"dump manifest --bundle={out} --module=face_age")
    assert b'dist:type="ai-pack"' in dumped and b"dist:fast-follow" in dumped
    bundletool(f"validate --bundle={out}")
