"""Lazy package doors: the stub next to ``__init__.py`` is the one list of public names.

`lazy_loader` does the same; it is written out here because the training core must import on servers
where only torch, numpy and a few others are installed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def attach(package: str, init_file: str) -> tuple[Callable[[str], Any], list[str]]:
    """Returns ``(__getattr__, __all__)`` for a package whose ``__init__.pyi`` re-exports ``from
    .module import Name``; ``dir`` of it lists all of them.

    A name may come from a sub-package (``from .data import Name``) and from another package (``from
    unplug.core import Name``).

    Args:
        package: the package's ``__name__``.
        init_file: the package's ``__file__``.

    Raises:
        AttributeError: from the returned function, for a name that the stub does not list.
    """
    # The stub is read as text: importing what it names is what must not happen yet.
    tree = ast.parse(Path(init_file).with_suffix(".pyi").read_text(encoding="utf-8"))
    origin = {
        alias.asname or alias.name: f"{package}.{node.module}" if node.level else node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.level < 2 and node.module
        for alias in node.names
    }

    def getattr_(name: str) -> Any:
        if name not in origin:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(origin[name]), name)

    package_names = vars(sys.modules[package])
    package_names["__dir__"] = lambda: sorted({*package_names, *origin})
    return getattr_, sorted(origin)
