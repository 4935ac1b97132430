"""The systems that are compared: each makes a model callable."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from ...support.errors import StepwellError

HERE = "stepwell"


class Unsupported(StepwellError):
    """Raised if a system cannot run a model; the message is the reason."""


@dataclass(frozen=True)
class Job:
    """A model that a system makes callable.

    Attributes:
        name: name of the model or kernel.
        path: the ONNX file.
        inputs: contents of its inputs, by name, in the model's order.
        threads: number of threads of a call.
        folder: folder for data that speeds up a later start.
        torch: the torch implementation of the same model; empty if there is none.
        is_module: whether it is a module of torch, in `torch_models.catalog`, without a file and inputs.
    """

    name: str
    path: Path
    inputs: Mapping[str, np.ndarray]
    threads: int
    folder: Path
    torch: str = ""
    is_module: bool = False


@dataclass(frozen=True)
class PeerSession:
    """A model in one of the systems, ready to be called on the inputs of its job.

    Attributes:
        call: runs it once, in the system's fastest way.
        outputs: runs it once and returns the outputs, in the model's order.
        facts: further facts, by the names of a `Row`'s fields; Stepwell also reports the work of its kernels.
    """

    call: Callable[[], object]
    outputs: Callable[[], list[np.ndarray]]
    facts: Callable[[], Mapping[str, Any]] = dict


@dataclass(frozen=True)
class System:
    """One of the systems.

    Attributes:
        name: the name in `--peers`.
        module: the module of this package whose function `function` returns a PeerSession for a Job.
        packages: the distributions that it needs; the first one's version is the system's.
        function: see `module`.
    """

    name: str
    module: str
    packages: tuple[str, ...]
    function: str = "open_session"

    def open(self, job: Job) -> PeerSession:
        """Imports the system and creates a session.

        Raises:
            Unsupported: the system cannot run this model.
        """
        return getattr(importlib.import_module(f".{self.module}", __name__), self.function)(job)

    @property
    def version(self) -> str | None:
        """The installed version; None if a package is missing."""
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
MODULE_SYSTEMS: dict[str, System] = {
    system.name: system
    for system in (
        System(HERE, "torch_modules", ("stepwell", "torch"), "open_stepwell"),
        System(f"{HERE}.export", "torch_modules", ("stepwell", "torch"), "open_export"),
        System("eager", "torch_modules", ("torch",), "open_eager"),
        System("inductor", "torch_modules", ("torch",), "open_inductor"),
        System("inductor-tuned", "torch_modules", ("torch",), "open_inductor_tuned"),
    )
}
"""The systems that run modules of torch."""
MODEL_PEERS = ("onnxruntime", "openvino", "torch", "torch.compile", "iree")
MODULE_PEERS = (f"{HERE}.export", "eager", "inductor")
KERNEL_PEERS = ("numpy", "torch", "onnxruntime", "openvino")


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
