"""PTX to machine code ahead of time, by NVIDIA's assembler where it is installed; drivers have one of their own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..errors import ArtefactError

_PACKAGES = ("nvidia.cu13", "nvidia.cuda_nvcc")
"""Where the package `nvidia-cuda-nvcc` puts its programs, in folders `bin`."""


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
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(lambda item: assemble(assembler, item[1], architecture), texts.items())
        return {**objects, **{f"{name}.cubin": code for name, code in zip(texts, made, strict=True)}}


def assemble(assembler: Path, ptx: bytes, architecture: str, options: tuple[str, ...] = ()) -> bytes:
    """The machine code of one PTX module.

    Raises:
        ArtefactError: the assembler refuses it.
    """
    with tempfile.TemporaryDirectory(prefix="stepwell-") as folder:
        source, made = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        source.write_bytes(ptx)
        command = [str(assembler), f"-arch={architecture}", *options, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ArtefactError(f"ptxas refuses the code: {done.stderr.strip()}")
        return made.read_bytes()
