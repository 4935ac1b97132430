"""Configuration of lit: the tests written as MLIR, and the folders of the programs in their RUN lines."""

# ruff: noqa: F821 (lit defines `config` and `lit_config`)

import os
import sys
from pathlib import Path

import lit.formats
import llvm

config.name = "stepwell"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
# pytest runs the files in `mended`.
config.excludes = ["Inputs", "mended"]
config.test_source_root = str(Path(__file__).parent)
config.test_exec_root = str(Path(__file__).parent.parent / "build" / "test")

# FileCheck, not and split-file come with the LLVM wheel, stepwell-opt with this environment.
folders = [Path(sys.executable).parent, Path(llvm.__file__).parent / "bin"]
if "forked" in lit_config.params:
    # The tools run in forked children of one process, which spares each of them its imports.
    sys.path.insert(0, config.test_source_root)
    from forked import commands

    server = commands.environment()
    config.environment["STEPWELL_TEST_SERVER"] = server["STEPWELL_TEST_SERVER"]
    folders.insert(0, Path(server["PATH"].split(os.pathsep)[0]))
config.environment["PATH"] = os.pathsep.join([*map(str, folders), config.environment["PATH"]])
config.environment["FILECHECK_OPTS"] = "--enable-var-scope --dump-input=fail"

config.substitutions.append(("%PYTHON", f'"{sys.executable}"'))
# lit inserts paths into commands as they are, spaces included; its own substitutions come after these.
config.substitutions += [(rf"%{name}\b", f'"%{name}"') for name in "sSptT"]
