"""`make sbom`: what is installed for unplug, as a CycloneDX bill of materials and as pip-audit's requirements.

    python -m benchmarks.sbom --out out
    pip-audit --requirement out/requirements-audit.txt --no-deps

Nothing is asked of any server: pyproject.toml says what is wanted, the metadata of this environment what is there.
"""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import click
from packaging.requirements import Requirement

from unplug.core import VERSION, atomic_path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
DISTRIBUTION, EXTRA = "unplug-sdk", "all"
SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
NAMESPACE = uuid.UUID("5b0a4f0e-2f0f-5d0c-9d53-0c4f3a1f7b11")
"""Of serial numbers: the same components have the same one."""


def normalized(name: str) -> str:
    """A distribution's name as the index compares it.

    Example:
        >>> normalized("Jinja2"), normalized("ast_serialize")
        ('jinja2', 'ast-serialize')
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(extra: str) -> list[Requirement]:
    """What pyproject.toml asks for, with an extra and those that it names in turn."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found, waiting, seen = [Requirement(line) for line in project["dependencies"]], [extra], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for item in map(Requirement, project["optional-dependencies"][name]):
            if normalized(item.name) == DISTRIBUTION:
                waiting += item.extras
            else:
                found.append(item)
    return found


def closure(asked: list[Requirement]) -> tuple[dict[str, Distribution], dict[str, list[str]]]:
    """All distributions that some requirements need, as far as they are installed, and which of them each one needs."""
    found: dict[str, Distribution] = {}
    needs: dict[str, set[str]] = {DISTRIBUTION: {normalized(item.name) for item in asked}}
    waiting = [(item.name, part) for item in asked for part in ("", *item.extras)]
    seen = set[tuple[str, str]]()
    while waiting:
        name, extra = waiting.pop()
        key = normalized(name)
        if (key, extra) in seen:
            continue
        seen.add((key, extra))
        try:
            found[key] = distribution(name)
        except PackageNotFoundError:  # an extra that is not installed here
            continue
        for item in map(Requirement, found[key].requires or ()):
            if item.marker is None or item.marker.evaluate({"extra": extra}):
                waiting += [(item.name, part) for part in ("", *item.extras)]
                needs.setdefault(key, set()).add(normalized(item.name))
    return found, {key: sorted(own & found.keys()) for key, own in needs.items()}


def bill(found: dict[str, Distribution], needs: dict[str, list[str]]) -> dict[str, Any]:
    """CycloneDX 1.6: components with package URLs and licences, and the graph of what needs what."""
    root = DISTRIBUTION
    components = [_component(key, item) for key, item in sorted(found.items())]
    purls = {**{part["name"]: part["bom-ref"] for part in components}, root: f"pkg:pypi/{root}@{VERSION}"}
    own = {"type": "application", "bom-ref": purls[root], "name": root, "version": VERSION, "purl": purls[root]}
    graph = [{"ref": purls[key], "dependsOn": [purls[name] for name in needs.get(key, ())]} for key in (root, *sorted(found))]
    content = json.dumps([components, graph], sort_keys=True)
    return {
        "$schema": SCHEMA, "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(NAMESPACE, content)}", "metadata": {"component": own},
        "components": components, "dependencies": graph,
    }  # fmt: skip


def _component(key: str, item: Distribution) -> dict[str, Any]:
    purl = f"pkg:pypi/{key}@{_public(item.version)}"
    made: dict[str, Any] = {"type": "library", "bom-ref": purl, "name": key, "version": item.version, "purl": purl}
    if licence := item.metadata.get("License-Expression"):
        made["licenses"] = [{"expression": licence}]
    return made


def _public(version: str) -> str:
    """Without the label of a local build (``+cpu``), which no advisory knows."""
    return version.partition("+")[0]


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("out"), show_default=True)
def main(out: Path) -> None:
    """Writes sbom.cdx.json and requirements-audit.txt, which pip-audit reads, into a folder."""
    found, needs = closure(wanted(EXTRA))
    lines = [f"{key}=={_public(item.version)}\n" for key, item in sorted(found.items())]
    for name, text in (
        ("sbom.cdx.json", json.dumps(bill(found, needs), indent=1, sort_keys=True) + "\n"),
        ("requirements-audit.txt", "".join(lines)),
    ):
        with atomic_path(out / name) as temporary:
            temporary.write_text(text, encoding="utf-8")
    click.echo(f"{len(lines)} packages: {out / 'sbom.cdx.json'}, {out / 'requirements-audit.txt'}")


if __name__ == "__main__":
    main()
