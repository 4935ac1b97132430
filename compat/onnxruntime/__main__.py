"""Runs a Python program on Stepwell in place of ONNX Runtime.

python -m stepwell.compat.onnxruntime program.py arguments...
python -m stepwell.compat.onnxruntime -m module arguments...
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import NoReturn

from ...sizes.dims_option import read_dims
from ...support.errors import InputError
from . import install, ranges

_USAGE = """Runs a Python program on Stepwell in place of ONNX Runtime.

    python -m stepwell.compat.onnxruntime [--dims n=1:64,m=1:128] program.py arguments...
    python -m stepwell.compat.onnxruntime [--dims n=1:64,m=1:128] -m module arguments...

--dims declares ranges of sizes, so that models are compiled once for all sizes in them. A name applies to all models
(n=1:64), or to one model by its file (model.onnx:n=1:64). A name that no model has is an error at the program's end."""

_NAME = "python -m stepwell.compat.onnxruntime"


def main() -> None:
    """Runs the program given by the arguments, as `python` would."""
    arguments = sys.argv[1:]
    dims: list[str] = []
    while arguments[:1] == ["--dims"]:
        dims += arguments[1:2]
        arguments = arguments[2:]
    if dims:
        _check(dims)
        os.environ[ranges.VARIABLE] = ",".join(dims)
    is_module = arguments[:1] == ["-m"]
    program = arguments[is_module : is_module + 1]
    if not program or program[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if program else sys.stderr)
        raise SystemExit(0 if program else 2)
    install()
    sys.argv = arguments[is_module:]
    if not is_module and not Path(program[0]).exists():
        raise SystemExit(f"{program[0]}: there is no such file")
    try:
        if is_module:
            runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(program[0]).resolve().parent)
            runpy.run_path(program[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    text = ranges.requested.unmatched(with_files=False)
    if dims and text:
        ranges.requested.names.clear()
        _fail(f"--dims: {text}")


def _check(dims: list[str]) -> None:
    """Ends the process if a `--dims` option has an unknown form."""
    try:
        read_dims(dims)
    except InputError as error:
        _fail(f"--dims {error}")


def _fail(message: str) -> NoReturn:
    print(f"{_NAME}: error: {message}", file=sys.stderr)
    raise SystemExit(2)


main()
