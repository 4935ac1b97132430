"""The systems that are measured side by side: each turns a model into something to call."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime.errors import StepwellError

HERE = "stepwell"


class Unsupported(StepwellError):
    """A system cannot run a model; the message is the reason."""


@dataclass(frozen=True)
class Job:
    """What a system is asked to make callable.

    Attributes:
        name: of the model or kernel.
        path: the ONNX file.
        inputs: the contents of its inputs, by name, in the model's order.
        threads: how many threads a call may use.
        folder: where the system may keep what a later process can start from.
        torch: which of the torch implementations is the same model; empty where there is none.
    """

    name: str
    path: Path
    inputs: Mapping[str, np.ndarray]
    threads: int
    folder: Path
    torch: str = ""


@dataclass(frozen=True)
class Session:
    """A model in one of the systems, ready to be called on the inputs of its job.

    Attributes:
        call: runs it once, in the system's fastest way.
        outputs: runs it once and gives the outputs, in the model's order.
        facts: what else is known, by the names of a `Row`'s fields; Stepwell tells what its kernels have to do, too.
    """

    call: Callable[[], object]
    outputs: Callable[[], list[np.ndarray]]
    facts: Callable[[], Mapping[str, Any]] = dict


@dataclass(frozen=True)
class System:
    """One of the systems.

    Attributes:
        name: as in `--peers`.
        module: of this package, its function `function` takes a Job and gives a Session.
        packages: what it needs, by the names of distributions; the first tells its version.
        function: see `module`.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    function: str = "open_session"

    def open(self, job: Job) -> Session:
        """Imports the system and makes a session.

        Raises:
            Unsupported: the system has no way to run this model.
        """
        return getattr(importlib.import_module(f".{self.module}", __name__), self.function)(job)

    @property
    def version(self) -> str | None:
        """The installed version; None where something of it is missing."""
        return None if self.missing else version(self.packages[0])

    @property
    def missing(self) -> list[str]:
        """The distributions that are not installed."""
        return [name for name in self.packages if not _is_installed(name)]


SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(HERE, "stepwell", ("stepwell",)),
        System("onnxruntime", "onnxruntime", ("onnxruntime",)),
        System("openvino", "openvino", ("openvino",)),
        System("torch", "torch", ("torch",)),
        System("torch.compile", "torch", ("torch",), "open_compiled_session"),
        System("iree", "iree", ("iree-base-compiler", "iree-base-runtime")),
        System("numpy", "numpy", ("numpy",)),
    )
}
MODEL_PEERS = ("onnxruntime", "openvino", "torch", "torch.compile", "iree")
KERNEL_PEERS = ("numpy", "torch", "onnxruntime", "openvino")


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
