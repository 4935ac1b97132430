"""Pipelines of `stepwell-opt`: their text from the command line, and those that MLIR runs without Python."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from mlir._mlir_libs._mlir.passmanager import PassDisplayMode, PassManager

from ..passes.infra.bindings import ir
from ..passes.infra.upstream import anchor_inside
from ..passes.ir import native
from ..passes.ir.resources import REPRODUCER, quoted, with_resources
from . import opt_flags
from .flags import CommandLine

_WRAPPED = re.compile(r"\s*(?P<anchor>[^\s()]+)\s*\(.*\)\s*", re.DOTALL)
_OPTIONS = re.compile(r"\{[^{}]*\}")
_NAME = re.compile(r"[\w.-]+(?!\s*\()(?![\w.-])")
_INSTRUMENTED = ("mlir-print-ir-before", "mlir-print-ir-after", "mlir-timing")
_ADDED = "\nfailed to add `"
NOT_ON_THREADS = "IR print for module scope can't be setup on a pass-manager without disabling multi-threading first.\n"
NOT_WRAPPED = "expected pass pipeline to be wrapped with the anchor operation type, e.g. 'builtin.module(...)'"


class PipelineText(NamedTuple):
    """A pipeline as given on the command line.

    Attributes:
        text: a whole pipeline; None if none was given.
        passes: single passes, each with its options as text.
        reproduced: the pipeline of a reproducer, which runs before the passes.
        is_native: whether all passes are MLIR's.
        is_threaded: whether several threads may run it.
        verify_each: whether to verify the IR after each pass.
    """

    text: str | None
    passes: tuple[tuple[str, str], ...]
    reproduced: str
    is_native: bool
    is_threaded: bool
    verify_each: bool

    @classmethod
    def of(cls, line: CommandLine) -> PipelineText:
        """Returns the pipeline that a command line requests."""
        text = line.get("pass-pipeline")
        names = [name for name, _ in line.passes] if text is None else _names_in(text)
        is_native = not any(map(opt_flags.is_python_pass, names))
        threaded, verify = not line.has("mlir-disable-threading"), line.has("verify-each", default=True)
        return cls(text, tuple(line.passes), "", is_native, threaded, verify)

    def with_reproducer(self, reproducer: Mapping[str, str]) -> PipelineText:
        """Returns this pipeline after that of a reproducer, with the reproducer's settings."""
        if not reproducer:
            return self
        text = reproducer.get("pipeline", "")
        return self._replace(
            reproduced=text,
            is_native=self.is_native and not any(map(opt_flags.is_python_pass, _names_in(text))),
            is_threaded=reproducer.get("disable_threading", "false") != "true",
            verify_each=reproducer.get("verify_each", "true") == "true",
        )


def _names_in(text: str) -> list[str]:
    """Returns the names of passes in the text of a pipeline, without anchor ops and options."""
    before = None
    while before != text:
        before, text = text, _OPTIONS.sub("", text)
    return _NAME.findall(text)


def is_native(text: PipelineText, line: CommandLine) -> bool:
    """Returns whether MLIR's own pass manager supports everything that is requested."""
    return text.is_native and not any(name in line.values for name in _INSTRUMENTED)


def single_passes(anchor: str, passes: tuple[tuple[str, str], ...]) -> str:
    """Returns single passes as elements of a pipeline for `anchor`, each nested in the op that it runs on."""
    return ",".join(_nested(anchor, name, options) for name, options in passes)


def _nested(anchor: str, name: str, options: str) -> str:
    element = f"{name}{{{options}}}" if options else name
    wanted = anchor_inside(anchor, name)
    return element if wanted in (anchor, None) else f"{wanted}({element})"


def emit(message: str) -> None:
    """Emits an error without a location."""
    ir.Location.unknown().emit_error(message)


class NativePipeline:
    """A pipeline of upstream passes.

    Args:
        line: the parsed command line.
        text: the pipeline.
        note: called with what is about to run.
        handler: receives the diagnostics of the passes.
    """

    def __init__(
        self, line: CommandLine, text: PipelineText, note: Callable[[str], None], handler: Callable[[Any], bool]
    ) -> None:
        self._line, self._text, self._note, self._handler = line, text, note, handler

    def run(self, root: ir.Operation) -> bool:
        """Runs the pipeline on an op; returns whether it succeeded, after diagnostics if not."""
        manager = self._manager(root)
        if manager is None or not self._set_up(manager):
            return False
        if self._line.has("dump-pass-pipeline"):
            native.dump(manager)
            print(file=sys.stderr)
        self._note(str(manager))
        root.context.enable_multithreading(self._text.is_threaded)
        try:
            is_good = native.run(manager, root, self._handler)
        finally:
            root.context.enable_multithreading(False)
        path = self._line.get("mlir-generate-reproducer")
        if path and is_good:
            # Like MLIR, this always writes the result, and states threading and no verification.
            entries = {"pipeline": quoted(str(manager)), "disable_threading": "false", "verify_each": "false"}
            with open(path, "w", encoding="utf-8") as file:
                file.write(with_resources(f"{root}\n", {REPRODUCER: entries}))
        return is_good

    def _manager(self, root: ir.Operation) -> PassManager | None:
        text, passes = self._text.text, self._text.passes
        if text is not None and passes:
            emit("'-pass-pipeline' option can't be used with individual pass options")
            return None
        if text is not None and _WRAPPED.fullmatch(text) is None:
            emit(NOT_WRAPPED)
            return None
        try:
            if self._text.reproduced:
                manager = PassManager.parse(self._text.reproduced)
            elif text is not None:
                return PassManager.parse(text)
            else:
                manager = PassManager(root.name)
        except ValueError as error:
            if self._text.reproduced:
                print(error, end="", file=sys.stderr)
            else:
                emit(str(error))
            return None
        try:
            if passes:
                manager.add(single_passes(root.name, passes))
        except ValueError as error:
            reason, _, _ = f"\n{error}".partition(_ADDED)
            if reason:  # the parser has reported an error in the options of a pipeline
                emit(reason[1:])
            return None
        return manager

    def _set_up(self, manager: PassManager) -> bool:
        """Configures a pass manager as the command line requests; returns False after a diagnostic."""
        line = self._line
        manager.enable_verifier(self._text.verify_each)
        before, after = line.has("mlir-print-ir-before-all"), line.has("mlir-print-ir-after-all")
        on_failure = line.has("mlir-print-ir-after-failure")
        whole = line.has("mlir-print-ir-module-scope")
        if whole and self._text.is_threaded:
            emit(NOT_ON_THREADS)
            return False
        if before or after or on_failure:
            manager.enable_ir_printing(
                print_before_all=before,
                print_after_all=after or on_failure,
                print_module_scope=whole,
                print_after_change=line.has("mlir-print-ir-after-change"),
                print_after_failure=on_failure,
                tree_printing_dir_path=line.get("mlir-print-ir-tree-dir") or None,
            )
        if line.has("mlir-pass-statistics"):
            is_list = line.get("mlir-pass-statistics-display") == "list"
            manager.enable_statistics(PassDisplayMode.LIST if is_list else PassDisplayMode.PIPELINE)
        path = line.get("mlir-pass-pipeline-crash-reproducer")
        if path:
            native.enable_reproducer(manager, path, line.has("mlir-pass-pipeline-local-reproducer"))
        return True
