"""Runs a Python program on Stepwell in the place of ONNX Runtime.

python -m stepwell.compat.onnxruntime program.py arguments...
python -m stepwell.compat.onnxruntime -m module arguments...
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from . import install
from .ranges import VARIABLE

_USAGE = """Runs a Python program on Stepwell in the place of ONNX Runtime.

    python -m stepwell.compat.onnxruntime [--dims n=1:64,m=1:128] program.py arguments...
    python -m stepwell.compat.onnxruntime [--dims n=1:64,m=1:128] -m module arguments...

--dims names what sizes dimensions may have, so that models are compiled once for all of them."""


def main() -> None:
    """Runs the program that the arguments name, as `python` would."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["--dims"]:
        os.environ[VARIABLE] = "".join(arguments[1:2])
        arguments = arguments[2:]
    is_module = arguments[:1] == ["-m"]
    program = arguments[is_module : is_module + 1]
    if not program or program[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if program else sys.stderr)
        raise SystemExit(0 if program else 2)
    install()
    sys.argv = arguments[is_module:]
    if is_module:
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        return
    if not Path(program[0]).exists():
        raise SystemExit(f"{program[0]}: there is no such file")
    sys.path[0] = str(Path(program[0]).resolve().parent)
    runpy.run_path(program[0], run_name="__main__")


main()
