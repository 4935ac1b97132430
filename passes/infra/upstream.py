"""Metadata of the passes in the MLIR wheel: names, help, options, classes."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from mlir import _mlir_libs
from mlir._mlir_libs._mlir.passmanager import PassManager

from .bindings import ir
from .diagnostics import MLIRError

NAMES_FILE = Path(__file__).with_name("upstream_names.json")

# MLIR prints its passes to the standard output of the process, so a child process does it.
_LISTING_SCRIPT = """
import ctypes, pathlib
from mlir import _mlir_libs, ir, passmanager
ctypes.CDLL(pathlib.Path(_mlir_libs.__file__).with_name("libMLIRPythonCAPI.so"))._ZN4mlir21printRegisteredPassesEv()
"""
_NAME = re.compile(r"[\w.-]+")
_PASS_LINE = re.compile(r"  --([\w-]+)(?: .*?)?\s+-   ")
_FAILED_PASS = re.compile(r"// -----// IR Dump After .* Failed \((.*?)\)")
_OPTION_LINE = re.compile(r"    --?([\w-]+)(?:=<.*?>|\s<.*?>)?\s+- ")
# MLIR's listing has passes but no pipelines.
PIPELINES = (
    "buffer-deallocation-pipeline",
    "gpu-lower-to-nvvm-pipeline",
    "gpu-lower-to-xevm-pipeline",
    "sparsifier",
    "tosa-to-linalg-pipeline",
)


@cache
def listing() -> str:
    """MLIR's own help on all its passes."""
    command = [sys.executable, "-c", _LISTING_SCRIPT]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@cache
def upstream_passes() -> dict[str, list[str]]:
    """The names of MLIR's passes and pipelines, each with the names of its options."""
    options: dict[str, list[str]] = {name: [] for name in PIPELINES}
    current: list[str] = []
    for line in listing().splitlines():
        if found := _PASS_LINE.match(line):
            current = options.setdefault(found[1], [])
        elif found := _OPTION_LINE.match(line):
            current.append(found[1])
    return options


def class_name(argument: str) -> str:
    """The C++ class of an upstream pass, which MLIR prints in dumps and reports."""
    return _class_names().get(argument, argument)


@cache
def _class_names() -> dict[str, str]:
    return json.loads(NAMES_FILE.read_text(encoding="utf-8"))


@cache
def anchor_of(name: str) -> str | None:
    """The op that an upstream pass or pipeline runs on, `builtin.module` if several; None if there is no such pass."""
    if not _NAME.fullmatch(name):
        return None
    with bare_context():
        return anchor_inside("builtin.module", name)


def anchor_inside(anchor: str, name: str) -> str | None:
    """The op that a pass runs on in a pipeline for `anchor`, in the current context; None if there is no such pass."""
    try:
        PassManager.parse(f"{anchor}({name})")
    except ValueError as error:
        restricted = re.search(r"restricted to '(\S+)'", str(error))
        return restricted[1] if restricted else None
    return anchor


def bare_context() -> ir.Context:
    """A context that registers all of MLIR's dialects but loads them on demand, as `mlir-opt` does.

    The contexts of the bindings load all dialects at once, which is slow and gives canonicalisation more patterns.
    """
    context = vars(ir)["_Context"]()
    context.append_dialect_registry(_mlir_libs.get_dialect_registry())
    importlib.import_module("mlir._mlir_libs._mlirRegisterEverything").register_llvm_translations(context)
    return context


class PreparedPipelines:
    """Upstream pipelines in the current context, each prepared once and run on many ops.

    The first run of a canonicaliser collects the patterns of all dialects, which takes longer than running it on a
    kernel.
    """

    def __init__(self) -> None:
        self.context = ir.Context.current
        self._managers: dict[tuple[str, bool], PassManager] = {}
        import tempfile  # imported late: a tool that runs only native pipelines does not need these
        import uuid

        self._dumps = Path(tempfile.gettempdir()) / f"stepwell-{uuid.uuid4()}"

    def run(self, pipeline: str, op: ir.Operation) -> None:
        """Runs a pipeline, given as text, on an op that matches its anchor."""
        try:
            self.manager(pipeline, verify=False).run(op)
        except MLIRError:
            self.failed_pass()
            raise

    def manager(self, pipeline: str, verify: bool) -> PassManager:
        """The pass manager of a pipeline given as text; `verify` verifies the IR after every pass."""
        key = pipeline, verify
        if key not in self._managers:
            manager = self._managers[key] = PassManager.parse(pipeline)
            manager.enable_verifier(verify)
            # The pass manager does not report which pass failed, but the IR dump after a failure names it.
            manager.enable_ir_printing(
                print_after_all=True,
                print_after_failure=True,
                large_elements_limit=0,
                tree_printing_dir_path=str(self._dumps),
            )
        return self._managers[key]

    def failed_pass(self) -> str:
        """The name of the pass that failed last, "" if unknown; removes MLIR's dump of the failure."""
        texts = (path.read_text() for path in self._dumps.rglob("*.mlir"))
        names = [found[1] for text in texts if (found := _FAILED_PASS.match(text))]
        shutil.rmtree(self._dumps, ignore_errors=True)
        return names[0] if names else ""
