"""PTX to machine code ahead of time, by NVIDIA's assembler where it is installed; drivers have one of their own."""

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

from ..cores import available_cores
from ..errors import ArtefactError

_PACKAGES = ("nvidia.cu13", "nvidia.cuda_nvcc")
"""Where the package `nvidia-cuda-nvcc` puts its programs, in folders `bin`."""

_ENTRY = re.compile(
    r"Compiling entry function '(?P<entry>[^']+)'.*?(?P<stack>\d+) bytes stack frame, "
    r"(?P<stored>\d+) bytes spill stores, (?P<loaded>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?:[^\n]*?(?P<shared>\d+) bytes smem)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Resources:
    """What the assembler says that a kernel takes.

    Attributes:
        entry: the kernel's name.
        registers: of 32 bits, of a thread.
        shared_bytes: shared memory of a block that its code asks for; a launch adds its dynamic part.
        stack_bytes: memory of a thread: what is indexed, or spilled.
        spill_bytes: what a thread writes to memory and reads from there for want of registers.
    """

    entry: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_bytes: int


def find_assembler() -> Path | None:
    """The program `ptxas`: that of the package `nvidia-cuda-nvcc`, or one on the PATH; None where there is none."""
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
    """The objects of a program, and for each PTX among them the machine code of an architecture, `sm_90a` for one.

    Raises:
        ArtefactError: there is no assembler, or it refuses the code.
    """
    assembler = find_assembler()
    if assembler is None:
        raise ArtefactError("there is no ptxas to make cubins: install nvidia-cuda-nvcc")
    texts = {name.removesuffix(".ptx"): code for name, code in objects.items() if name.endswith(".ptx")}
    with ThreadPoolExecutor(available_cores()) as pool:
        made = pool.map(lambda item: assemble(assembler, item[1], architecture), texts.items())
        return {**objects, **{f"{name}.cubin": code for name, code in zip(texts, made, strict=True)}}


def assemble(assembler: Path, ptx: bytes, architecture: str, options: tuple[str, ...] = ()) -> bytes:
    """The machine code of one PTX module.

    Raises:
        ArtefactError: the assembler refuses it.
    """
    return _assembled(assembler, ptx, architecture, options)[0]


def resources(assembler: Path, ptx: bytes, architecture: str) -> list[Resources]:
    """What every kernel of a PTX module takes.

    Raises:
        ArtefactError: the assembler refuses it.
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
    """The machine code, and what was said of it."""
    with tempfile.TemporaryDirectory(prefix="stepwell-") as folder:
        source, made = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_bytes(ptx)
        command = [str(assembler), f"-arch={architecture}", *options, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ArtefactError(f"ptxas refuses the code: {done.stderr.strip()}")
        return made.read_bytes(), done.stdout + done.stderr
