"""Writes `upstream_names.json`: the C++ class of every pass in the MLIR wheel.

    python -m stepwell.passes.infra.upstream_names

MLIR prints the class of a pass in dumps and reports but has no list of classes. So every pass runs once on a small
module with IR dumps enabled. Each runs in a process of its own, because some abort on unexpected IR.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .upstream import NAMES_FILE, PIPELINES, upstream_passes

_ANCHORS = (
    "builtin.module({})",
    "builtin.module(func.func({}))",
    "builtin.module(gpu.module({}))",
    "builtin.module(spirv.module({}))",
)
_HEADER = re.compile(r"// -----// IR Dump Before (.*?) \((.*?)\)")
_SCRIPT = """
import sys
from mlir import ir
from mlir.passmanager import PassManager
pipeline, folder = sys.argv[1:]
with ir.Context():
    module = ir.Module.parse('''
      gpu.module @kernels {}
      func.func @f() { return }
      spirv.module Logical GLSL450 {}
    ''')
    manager = PassManager.parse(pipeline)
    manager.enable_ir_printing(print_before_all=True, print_after_all=False, tree_printing_dir_path=folder)
    manager.run(module.operation)
"""


def find_class_name(argument: str) -> str | None:
    """The class of the pass called `argument`, or None if it runs on none of these ops."""
    for anchor in _ANCHORS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-c", _SCRIPT, anchor.format(argument), folder]
            subprocess.run(command, check=False, capture_output=True)
            headers = "\n".join(path.read_text() for path in Path(folder).rglob("*.mlir"))
        for name, dumped_argument in _HEADER.findall(headers):
            if dumped_argument == argument:
                return name
    return None


def main() -> None:
    """Regenerates the file."""
    names = {argument: find_class_name(argument) for argument in upstream_passes() if argument not in PIPELINES}
    found = {argument: name for argument, name in sorted(names.items()) if name is not None}
    NAMES_FILE.write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
