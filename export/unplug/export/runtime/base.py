"""What a runtime is: the protocol that RUNTIMES holds, and one loaded artifact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from unplug.core import Array, ArtifactError, IOSpec, installed_versions


@dataclass(frozen=True, kw_only=True)
class Placement:
    """What runs the artifact's operators.

    Args:
        delegate_asked: name from the runtime's `delegates`.
        delegate_got: the delegate that the runtime reports, or None where it does not tell.
        nodes_delegated: operators that the delegate took, or None.
        nodes_total: operators of the graph, or None.
        partitions: pieces that the delegate runs as one, or None.
        left: operators that it did not take, as often as there are such.
        adapter: the GPU that it chose, in its own words, or None.
    """

    delegate_asked: str
    delegate_got: str | None = None
    nodes_delegated: int | None = None
    nodes_total: int | None = None
    partitions: int | None = None
    left: tuple[str, ...] = ()
    adapter: str | None = None

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Placement:
        """What `dataclasses.asdict` and JSON made of one."""
        return cls(**{**raw, "left": tuple(raw["left"])})


class Runner(Protocol):
    """One loaded artifact; the three steps are apart so that a benchmark can time them apart."""

    @property
    def placement(self) -> Placement: ...

    def feed(self, inputs: Mapping[str, Array]) -> None:
        """Hands over one sample a name, batch axis of one included."""
        ...

    def invoke(self) -> None:
        """Computes; returns when the work is done."""
        ...

    def read(self) -> dict[str, Array]:
        """The outputs by name, as copies."""
        ...


class FunctionRunner:
    """An artifact that is a function from named arrays to named arrays."""

    def __init__(
        self, compute: Callable[[dict[str, Array]], Mapping[str, Array]], placement: Placement
    ) -> None:
        self.placement = placement
        self._compute = compute
        self._inputs: dict[str, Array] = {}
        self._outputs: Mapping[str, Array] = {}

    def feed(self, inputs: Mapping[str, Array]) -> None:
        """See `Runner.feed`; the arrays are read where they lie."""
        self._inputs = dict(inputs)

    def invoke(self) -> None:
        """See `Runner.invoke`."""
        self._outputs = self._compute(self._inputs)

    def read(self) -> dict[str, Array]:
        """See `Runner.read`."""
        return dict(self._outputs)


class PythonPackage:
    """A runtime that is installed with pip, and runs wherever that installs."""

    package: str

    def version(self) -> str | None:
        """The installed version of the distribution that holds the runtime."""
        return installed_versions([self.package]).get(self.package)

    def unavailable(self) -> str | None:
        """None: the package has the runtime on every platform that it installs on."""
        return None


class Runtime(Protocol):
    """Runs artifacts of one target. `open` is called in a child process; the rest by anybody.

    Args:
        name: key in RUNTIMES.
        suffix: the suffix of the files that it runs, with the dot.
        modules: the modules that `open` imports; a benchmark imports them first, to leave that time
            and memory out.
        package: the package; a report names its version.
        extra: the unplug extra that installs it.
        delegates: names that `open` takes; the first is the default.
    """

    @property
    def name(self) -> str: ...
    @property
    def suffix(self) -> str: ...
    @property
    def modules(self) -> tuple[str, ...]: ...
    @property
    def package(self) -> str: ...
    @property
    def extra(self) -> str: ...
    @property
    def delegates(self) -> tuple[str, ...]: ...

    def version(self) -> str | None:
        """The version of its package, or None where that is not installed."""
        ...

    def unavailable(self) -> str | None:
        """Why it cannot run on this machine, or None when it can."""
        ...

    def open(self, path: Path, iospec: IOSpec, *, threads: int, delegate: str) -> Runner:
        """Loads an artifact.

        Raises:
            ArtifactError: the file is broken, or its tensors are not those of `iospec`.
        """
        ...


def runtime_versions(runtimes: Iterable[Runtime]) -> dict[str, str]:
    """Package to version of those that are installed."""
    versions = {runtime.package: runtime.version() for runtime in runtimes}
    return {package: version for package, version in versions.items() if version is not None}


Tensors = Mapping[str, tuple[tuple[int, ...], str]]
"""Name to (shape, numpy type name), as a file has them."""


def check_tensors(path: Path, iospec: IOSpec, inputs: Tensors, outputs: Tensors) -> None:
    """Raises unless the file's tensors have the names, shapes and types that its card says.

    Args:
        path: the artifact, for the message.
        iospec: the card's.
        inputs, outputs: the file's.

    Raises:
        ArtifactError: the file's tensors are not those of its card.
    """
    for specs, tensors in ((iospec.inputs, inputs), (iospec.outputs, outputs)):
        expected = {spec.name: (spec.shape, spec.dtype) for spec in specs}
        if expected != dict(tensors):
            raise ArtifactError(
                str(path),
                f"its tensors are {dict(tensors)} where its card says {expected}",
                "Export it again",
            )
