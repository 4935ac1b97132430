"""Ahead-of-time assembly of PTX by NVIDIA's ptxas, if installed; otherwise the driver compiles PTX itself."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ...support.cores import available_cores
from ...support.errors import ArtefactError

_PACKAGES = ("nvidia.cu13", "nvidia.cuda_nvcc")
"""Packages that contain NVIDIA's programs in folders `bin`; installed by `nvidia-cuda-nvcc`."""

_ENTRY = re.compile(
    r"Compiling entry function '(?P<entry>[^']+)'.*?(?P<stack>\d+) bytes stack frame, "
    r"(?P<stored>\d+) bytes spill stores, (?P<loaded>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?:[^\n]*?(?P<shared>\d+) bytes smem)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Resources:
    """Resources of a kernel as the assembler reports them.

    Attributes:
        entry: name of the kernel.
        registers: 32-bit registers per thread.
        shared_bytes: static shared memory per block; a launch adds its dynamic part.
        stack_bytes: local memory per thread, for indexed arrays and spilled registers.
        spill_bytes: bytes per thread of spill stores and loads.
    """

    entry: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


def find_assembler() -> Path | None:
    """Returns the path of `ptxas` from the package `nvidia-cuda-nvcc` or the PATH; None if it is not installed."""
    for package in _PACKAGES:
        try:
            found = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in [] if found is None else found.submodule_search_locations or []:
            path = Path(folder, "bin", "ptxas")
            if path.exists():
                return path
    path = shutil.which("ptxas")
    return None if path is None else Path(path)


def with_cubins(objects: Mapping[str, bytes], architecture: str) -> dict[str, bytes]:
    """Returns a program's objects, plus the machine code of each PTX object for an architecture such as `sm_90a`.

    Raises:
        ArtefactError: there is no assembler, or it rejects the code.
    """
    assembler = find_assembler()
    if assembler is None:
        raise ArtefactError("ptxas, needed to make cubins, was not found: install nvidia-cuda-nvcc")
    texts = {name.removesuffix(".ptx"): code for name, code in objects.items() if name.endswith(".ptx")}
    with ThreadPoolExecutor(available_cores()) as pool:
        made = pool.map(lambda item: assemble(assembler, item[1], architecture), texts.items())
        return {**objects, **{f"{name}.cubin": code for name, code in zip(texts, made, strict=True)}}


def assemble(assembler: Path, ptx: bytes, architecture: str, options: tuple[str, ...] = ()) -> bytes:
    """Returns the machine code of a PTX module.

    Raises:
        ArtefactError: the assembler rejects it.
    """
    return _assembled(assembler, ptx, architecture, options)[0]


def resources(assembler: Path, ptx: bytes, architecture: str) -> list[Resources]:
    """Returns the resources of every kernel of a PTX module.

    Raises:
        ArtefactError: the assembler rejects it.
    """
    _, report = _assembled(assembler, ptx, architecture, ("-v",))
    return [
        Resources(
            found["entry"],
            int(found["registers"]),
            int(found["shared"] or 0),
            int(found["stack"]),
            int(found["stored"]) + int(found["loaded"]),
        )
        for found in _ENTRY.finditer(report)
    ]


def _assembled(assembler: Path, ptx: bytes, architecture: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """Returns the machine code and the assembler's report."""
    with tempfile.TemporaryDirectory(prefix="stepwell-") as folder:
        source, made = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_bytes(ptx)
        command = [str(assembler), f"-arch={architecture}", *options, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ArtefactError(f"ptxas rejects the code: {done.stderr.strip()}")
        return made.read_bytes(), done.stdout + done.stderr
