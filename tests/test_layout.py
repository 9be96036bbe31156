"""The layout that DESIGN.md fixes: namespace packages, one door each, light imports, a core with
few dependencies.
"""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import subprocess
import types
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from unplug.core import schema_text

from .blocked import python, with_only

ROOT = Path(__file__).parent.parent
OUTER = ("core", "plugins", "export", "mobile_bench", "sdk")
SOURCES = {
    ".".join(path.relative_to(ROOT / outer).with_suffix("").parts).removesuffix(".__init__"): path
    for outer in OUTER
    for path in sorted((ROOT / outer / "unplug").rglob("*.py"))
    if "node_modules" not in path.parts
}
DOORS = tuple(
    name
    for name, path in SOURCES.items()
    if path.name == "__init__.py" and path.with_suffix(".pyi").is_file()
)
# packages whose door is a plain ``__init__.py``
EAGER_DOORS = (
    "unplug.sdk.cli",
    "unplug.sdk.learning.faces",
    "unplug.sdk.schemas",
)
# What a GPU server has, and what those packages themselves need to be imported; torch takes optree
# wherever it is installed.
CORE = (
    "torch",
    "optree",
    "numpy",
    "scipy",
    "pillow",
    "safetensors",
    "huggingface_hub",
    "click",
    "tqdm",
)
WITHOUT = ("jinja2", "pydantic", "matplotlib", "cv2", "psutil")
CORE_DOORS = (
    "unplug.core",
    "unplug.sdk.evidence.statistics",
    "unplug.sdk.learning.data",
    "unplug.sdk.learning.training",
    "unplug.sdk.forgetting.unlearning",
    "unplug.sdk.evidence.auditing",
    "unplug.sdk.evidence.fleet",
)


def stub_names(package: str) -> list[str]:
    module = importlib.import_module(package)
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    names = [
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert len(names) == len(set(names)), "a name is exported twice"
    return names


@pytest.mark.parametrize("outer", OUTER)
def test_the_import_packages_of_each_folder(outer: str) -> None:
    assert [path.name for path in (ROOT / outer).glob("*.py")] == []
    packages = {
        path.name for path in (ROOT / outer / "unplug").iterdir() if path.name != "__pycache__"
    }
    assert packages == {outer, *({"trust", "serve"} if outer == "sdk" else ())}
    assert all((ROOT / outer / "unplug" / name / "py.typed").is_file() for name in packages)


def test_the_weights_that_ship_are_data_alone() -> None:
    folder = ROOT / "sdk" / "weights"
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*.py")] == [
        "unplug_weights/__init__.py"
    ]
    assert list((ROOT / "sdk" / "unplug").rglob("*.safetensors")) == []


def test_unplug_is_a_namespace_everywhere() -> None:
    assert [path for outer in OUTER for path in (ROOT / outer).rglob("unplug/__init__.py")] == []
    assert importlib.import_module("unplug").__file__ is None


def test_nobody_edits_sys_path() -> None:
    words = re.compile(r"sys\.path(\.insert|\.append| =)")
    sources = [path for outer in OUTER for path in (ROOT / outer).rglob("*.py")]
    assert [str(path) for path in sources if words.search(path.read_text(encoding="utf-8"))] == []


def house_of(module: str) -> str:
    """The innermost package with a door that a module lies in."""
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 1, -1)]
    return next((name for name in names if name in DOORS or name in EAGER_DOORS), names[-1])


def imports_of(module: str) -> list[tuple[int, str]]:
    """Line and module of every import of ours in a file, also of those inside functions."""
    path, found = SOURCES[module], []
    base = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ".".join(base[: len(base) - node.level + 1]) if node.level else ""
            source = ".".join(part for part in (above, node.module) if part)
            found += [
                (
                    node.lineno,
                    f"{source}.{name.name}" if f"{source}.{name.name}" in SOURCES else source,
                )
                for name in node.names
            ]
    return [(line, name) for line, name in found if name.startswith("unplug.")]


def test_across_packages_only_doors_are_used() -> None:
    round_a_door = [
        f"{SOURCES[module]}:{line} imports {name}"
        for module in SOURCES
        for line, name in imports_of(module)
        if house_of(name) != house_of(module)
        and name != house_of(name)
        and not house_of(module).startswith(
            f"{house_of(name)}."
        )  # a package within another is at home there
    ]
    assert round_a_door == []


def test_no_two_modules_import_each_other() -> None:
    graph = {module: {name for _, name in imports_of(module)} - {module} for module in SOURCES}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names them


def test_a_class_name_stands_once() -> None:
    names = Counter(
        node.name
        for path in SOURCES.values()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, times in names.items() if times > 1} == set()


def test_only_the_command_line_stands_above_the_door_of_the_sdk() -> None:
    """What that door resolves lazily lies below it: a cycle that import-linter does not see."""
    users = {
        house_of(module)
        for module in SOURCES
        for _, name in imports_of(module)
        if name == "unplug.sdk"
    }
    assert users <= {"unplug.sdk.cli", "unplug.serve"}


@pytest.mark.parametrize("package", DOORS)
def test_door_is_complete_and_sorted(package: str) -> None:
    door = importlib.import_module(package)
    assert list(door.__all__) == sorted(stub_names(package)), "__all__ and the stub differ"
    assert {*door.__all__} <= {*dir(door)}, "what is shown behind a dot in a shell"
    for name in door.__all__:
        value = getattr(door, name)
        assert not isinstance(value, types.ModuleType), (
            f"{package}.{name} is the sub-module, not the object"
        )
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_that_name'"):
        getattr(door, "nothing_of_that_name")  # noqa: B009 (a plain access is what ruff would drop)


@pytest.mark.parametrize(
    "package", ["unplug.export", "unplug.mobile_bench", "unplug.sdk", "benchmarks.studies"]
)
def test_committed_schemas_are_current_and_none_is_left_over(package: str) -> None:
    module = importlib.import_module(f"{package}.schemas")
    schemas, folder = module.SCHEMAS, Path(str(module.__file__)).parent
    assert {path.name for path in folder.glob("*.json")} == set(schemas)
    for name, kind in schemas.items():
        text = (folder / name).read_text(encoding="utf-8")
        assert text == schema_text(kind, name), f"run: python -m {package}.schemas"
        assert json.loads(text)["properties"]["schema"]["const"] == "/".join(
            name.removesuffix(".json").rsplit("-", 1)
        )


@pytest.mark.parametrize("package", DOORS)
def test_no_public_name_is_also_a_submodule(package: str) -> None:
    """Importing a sub-module sets it as an attribute of its package: it would hide the object of
    the same name.
    """
    door = importlib.import_module(package)
    modules = {info.name for info in pkgutil.iter_modules(door.__path__)}
    assert modules.isdisjoint(door.__all__)


def test_doors_above_the_networks_and_help_import_nothing_heavy() -> None:
    code = """
import sys, unplug.sdk, unplug.export, unplug.mobile_bench, unplug.sdk.learning.faces
from unplug.sdk.cli import main
for word in ("--help", "--version"):
    try:
        main([word])
    except SystemExit as stop:
        assert not stop.code, stop.code
heavy = ("torch", "numpy", "scipy", "cv2", "tensorflow", "matplotlib", "pydantic", "PIL", "huggingface_hub", "jinja2",
         "onnx", "onnxruntime", "litert_torch", "ai_edge_litert", "coremltools", "mediapipe")
print("HEAVY", [name for name in heavy if name in sys.modules])
"""
    assert python(code).splitlines()[-1] == "HEAVY []"


def test_doors_themselves_import_no_torch() -> None:
    assert python(f"import sys, {', '.join(DOORS)}; print('torch' in sys.modules)") == "False\n"


@pytest.mark.long
def test_core_trains_and_saves_a_checkpoint_with_what_a_gpu_server_has(tmp_path: Path) -> None:
    code = f"""
{with_only(CORE, without=WITHOUT)}
assert {{"pydantic", "jinja2", "matplotlib", "cv2", "psutil", "pytest", "hypothesis"}} <= BLOCKED
assert not {{"torch", "numpy", "PIL", "tqdm", "click", "huggingface_hub"}} & BLOCKED
import importlib, os
for door in map(importlib.import_module, {CORE_DOORS!r}):
    for name in door.__all__:
        getattr(door, name)
os.environ["UNPLUG_CACHE"] = "cache"
from pathlib import Path
import numpy as np, torch
from PIL import Image
torch.set_num_threads(1)
from unplug.sdk.learning.data import load_dataset, make_split
from unplug.sdk.forgetting.tasks import train_age
from unplug.sdk.learning.training import Recipe
faces = Path("faces"); faces.mkdir()
for number in range(20):
    pixels = np.full((32, 32, 3), number * 10, np.uint8)
    Image.fromarray(pixels).save(faces / f"{{number + 1}}_0_0_{{number}}.png")
dataset = load_dataset("utkface:faces", 32, show=False)
recipe = Recipe(size="nano", image_size=32, epochs=1, batch_size=8)
done = train_age(dataset, make_split(dataset), recipe, Path("out"), seed=0, device=torch.device("cpu"), show=False)
print(sorted(path.name for path in Path("out").iterdir()))
"""
    assert (
        python(code, cwd=tmp_path)
        == "['README.md', 'config.json', 'metrics.jsonl', 'model.safetensors', 'unplug.json']\n"
    )
    assert (
        "# Face-age predictor, nano, 32 px (original)"
        in (tmp_path / "out" / "README.md").read_text()
    )


def test_the_checkout_fits_what_a_machine_with_a_gpu_takes() -> None:
    """It takes 64 MiB, and what is carried beside the tracked files needs room;
    ``benchmarks.condense`` makes data small.
    """
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no git checkout")
    sizes = {
        name: (ROOT / name).lstat().st_size
        for name in listed.stdout.split("\0")
        if name and (ROOT / name).exists()
    }
    largest = sorted(sizes, key=sizes.__getitem__)[-5:]
    assert sum(sizes.values()) <= 60 * 2**20, {name: sizes[name] for name in largest}
