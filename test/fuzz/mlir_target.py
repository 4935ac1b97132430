"""Runs `stepwell-opt` on MLIR, as a user does, and compiles it if it is a model."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from small_calls import LARGEST, compile_and_call
from stepwell.tools import opt

_PARAMETER = re.compile(r'name = "([^"]+)", shape = array<i64: (-?\d+(?:, -?\d+)*)>, dtype = (\w+)')
_DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "i1": np.bool_, "i8": np.int8, "ui8": np.uint8}
_DTYPES |= {"i32": np.int32, "i64": np.int64}


def run(data: bytes) -> None:
    """Runs the pipeline of the first line on the rest, then compiles and calls @main if there is one.

    Raises:
        AssertionError: the tool's exit code is neither 0 nor 1, or it printed a traceback.
        Exception: any exception of the package.
    """
    _optimise(data)
    if b"@main" not in data:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mutant.mlir")
        path.write_bytes(data)
        save_file(_parameters(data.decode()), path.with_name("parameters.safetensors"))
        compile_and_call(path)


def _parameters(text: str) -> dict[str, np.ndarray]:
    """Returns small numbers for the parameters that a module reads, as far as its text declares them literally."""
    found = {}
    for name, shape, element in _PARAMETER.findall(text):
        sizes = tuple(map(int, shape.split(",")))
        if element in _DTYPES and all(size >= 0 for size in sizes) and np.prod(sizes, dtype=float) <= LARGEST:
            found[name] = np.random.default_rng(0).integers(0, 3, sizes).astype(_DTYPES[element])
    return found


def _optimise(data: bytes) -> None:
    first = data.split(b"\n", 1)[0].decode()
    command = first.partition("stepwell-opt")[2].split("|")[0].split("2>&1")[0]
    # Flags that name files are left out: the files of a test do not exist here.
    flags = [word for word in shlex.split(command) if "%" not in word and not word.startswith((">", "-o"))]
    with tempfile.TemporaryDirectory() as folder:
        path, errors = os.path.join(folder, "mutant.mlir"), os.path.join(folder, "errors")
        with open(path, "wb") as file:
            file.write(data)
        with _redirected(errors):
            code = opt.main([path, *flags])
        with open(errors, "rb") as file:
            told = file.read()
    assert code in (0, 1), f"stepwell-opt ended with {code}"
    assert b"Traceback" not in told, told[-2000:].decode("utf-8", "replace")
    assert code == 0 or told.strip(), "stepwell-opt failed without a word"


@contextlib.contextmanager
def _redirected(errors: str):
    """Redirects standard error to a file and discards standard output, for child processes too."""
    kept = os.dup(1), os.dup(2)
    out, err = os.open(os.devnull, os.O_WRONLY), os.open(errors, os.O_CREAT | os.O_WRONLY)
    os.dup2(out, 1), os.dup2(err, 2)
    try:
        with contextlib.redirect_stderr(io.TextIOWrapper(io.FileIO(err, "w", closefd=False), write_through=True)):
            yield
    finally:
        for descriptor, number in zip(kept, (1, 2), strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(out), os.close(err)
