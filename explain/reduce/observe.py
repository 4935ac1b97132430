"""Tests of a case: whether it compiles, its passes succeed, or a command accepts it."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx
from mlir import ir

from ...dialects.registry import load_dialects
from ...driver.api import compile
from ...driver.options import Options
from ...frontend.errors import ModelError
from ...passes.infra.diagnostics import MLIRError
from ...passes.infra.instrumentation import Instrumentation, PassStep
from ...passes.infra.options import PipelineError
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.runner import PassFailure, PipelineRunner
from ...runtime.executable import Executable
from ...support.errors import StepwellError
from .case import Case, ReduceError
from .failure import FailureSignature, failure
from .onnx_graph import all_names

Note = Callable[[str], None]


class _Noting(Instrumentation):
    """Notes the pass that is about to run, to attribute crashes of native code."""

    def __init__(self, note: Note) -> None:
        self._note = note

    def before_pass(self, step: PassStep, op: ir.Operation) -> None:
        self._note(step.name)


class _PhaseReached(StepwellError):
    """Raised at the phase at which a compile may end."""


@dataclass(frozen=True)
class CompileTest:
    """Tests whether the case fails to compile, or has nodes without native code.

    Attributes:
        target: the target of the compile.
        dims: the ranges of sizes, as in `Options.dims`.
        watches: whether to note every pass, which keeps the model in one module.
        until: the phase at which a compile may end, as later phases are not needed; "" for none.
        winograd: as in `Options`.
        plugins: the modules or files of plug-ins that the compile needs, separated by commas; "" for none.
    """

    target: str = "cpu"
    dims: Mapping[str, Any] = field(default_factory=dict)
    watches: bool = False
    until: str = ""
    winograd: bool = True
    plugins: str = ""

    def observe(self, case: Case, note: Note) -> list[FailureSignature]:
        """See `Test`."""
        names = names_of(case)
        try:
            executable = self.compiled(case, note)
        except _PhaseReached:
            return []
        except Exception as error:  # the failure of this case, whatever its type
            return [failure_of(error, names)]
        return [
            failure("host", found.op_type, found.reason, {*names, found.node}, found.node)
            for found in executable.fallbacks
        ]

    def compiled(self, case: Case, note: Note) -> Executable:
        """Compiles the case; nodes that cannot be compiled may run on the host, a failing pass is an error."""
        try:
            return self._compiled(case, note, "error")
        except ModelError:
            # Possibly because of nodes that may run on the host, which "quiet" lists one by one.
            return self._compiled(case, note, "quiet")

    def _compiled(self, case: Case, note: Note, fallback: str) -> Executable:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            watchers = (_Noting(note),) if self.watches else ()
            options = Options(
                cache=False,
                codegen_threads=1,
                fallback=fallback,
                instrumentation=watchers,
                dims=self.dims_of(case),
                winograd=self.winograd,
                reached=self._stop if self.until else None,
            )
            executable = compile(case.data, self.target, threads=1, options=options)
            varying = [info for info in executable.inputs if not info.is_static and info.kind == "tensor"]
            shapes = {info.name: case.shapes[info.name] for info in varying if info.name in case.shapes}
            if shapes and len(shapes) == len(varying):
                executable.try_prepare(shapes)
            return executable

    def _stop(self, phase: str, module: ir.Module, parameters: Mapping[str, Any]) -> None:
        if phase == self.until:
            raise _PhaseReached

    def dims_of(self, case: Case) -> dict[str, Any]:
        """Returns the ranges whose dimensions the case still has."""
        if not self.dims or case.kind != "onnx":
            return {}
        inputs = onnx.ModelProto.FromString(case.data).graph.input
        left = {dim.dim_param for value in inputs for dim in value.type.tensor_type.shape.dim if dim.dim_param}
        return {name: sizes for name, sizes in self.dims.items() if name in left}

    def command(self, path: str, case: Case) -> str:
        """See `Test`."""
        words = ["stepwell-compile", path, "--no-cache", "--fallback=error"]
        if self.target != "cpu":
            words.append(f"--target={self.target}")
        words += [f"--shape={name}={'x'.join(map(str, shape))}" for name, shape in case.shapes.items()]
        words += self.dims_words(case)
        words += [] if self.winograd else ["--no-winograd"]
        return shlex.join(words + plugin_words(self.plugins))

    def dims_words(self, case: Case) -> list[str]:
        """Returns the options of tools for the ranges of a case."""
        return [f"--dims={name}={_sizes(sizes)}" for name, sizes in self.dims_of(case).items()]


def plugin_words(plugins: str) -> list[str]:
    """Returns the option of tools that loads plug-ins, given separated by commas; nothing for none."""
    return [f"--load-pass-plugin={plugins}"] if plugins else []


def _sizes(sizes: Any) -> str:
    if isinstance(sizes, int | str):
        return str(sizes)
    return ("/" if isinstance(sizes, list) else ":").join(map(str, sizes))


@dataclass(frozen=True)
class PassesTest:
    """Tests whether the passes of `Case.pipeline` fail on MLIR.

    Attributes:
        allows_unregistered: whether ops of unknown dialects are accepted.
        plugins: the modules or files of further passes, separated by commas; "" for none.
    """

    allows_unregistered: bool = False
    plugins: str = ""

    def observe(self, case: Case, note: Note) -> list[FailureSignature]:
        """See `Test`."""
        with context_for_passes(self.allows_unregistered):
            try:
                module = ir.Module.parse(case.text)
                pipeline = Pipeline.parse(case.pipeline)
                PipelineRunner([_Noting(note)]).run(pipeline.anchor, pipeline.elements, module.operation)
            except PipelineError as error:
                raise ReduceError(str(error)) from error
            except Exception as error:  # the failure of this case, whatever its type
                return [failure_of(error, ())]
        return []

    def command(self, path: str, case: Case) -> str:
        """See `Test`."""
        more = ["--allow-unregistered-dialect"] if self.allows_unregistered else []
        return shlex.join(
            ["stepwell-opt", path, f"--pass-pipeline={case.pipeline}", *more, *plugin_words(self.plugins)]
        )


def context_for_passes(allows_unregistered: bool = False) -> ir.Context:
    """Creates a context without multithreading that has the stepwell dialect; the caller enters it."""
    context = ir.Context()
    context.enable_multithreading(False)
    context.allow_unregistered_dialects = allows_unregistered
    load_dialects(context)
    return context


@dataclass(frozen=True)
class CommandTest:
    """Tests a case with a command, which exits with 0 for an interesting case; `{}`, or else its end, is the file."""

    template: str

    def observe(self, case: Case, note: Note) -> list[FailureSignature]:
        """See `Test`."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / f"case.{case.kind}"
            file.write_bytes(case.data)
            done = subprocess.run(self.command(str(file), case), shell=True, check=False, stdin=subprocess.DEVNULL)
        return [] if done.returncode else [FailureSignature("command", "the command", "exits with 0", "")]

    def command(self, path: str, case: Case) -> str:
        """See `Test`."""
        name = shlex.quote(path)
        return self.template.replace("{}", name) if "{}" in self.template else f"{self.template} {name}"


def names_of(case: Case) -> set[str]:
    """Returns the names of nodes and values, which do not identify a failure."""
    return all_names(onnx.ModelProto.FromString(case.data).graph) if case.kind == "onnx" else set()


def failure_of(error: Exception, names: set[str] | tuple[()]) -> FailureSignature:
    """Creates the failure that identifies an exception of the compiler."""
    place = str(getattr(error, "location", None) or getattr(error, "node", ""))
    if isinstance(error, PassFailure) and error.pass_name:
        reason = str(error).removeprefix(f"pass '{error.pass_name}' failed: ")
        cause = error.__cause__
        if cause is not None and "(this is a bug in the pass)" in reason and not isinstance(cause, MLIRError):
            reason = f"{_innermost(cause)}: {reason}"
        return failure("pass", error.pass_name, reason, names, place)
    if isinstance(error, ModelError):
        return failure("error", f"{type(error).__name__} {error.op_type}".strip(), error.reason, names, error.node)
    if isinstance(error, MLIRError):
        diagnostics: Any = getattr(error, "error_diagnostics", ())
        message = "; ".join(diagnostic.message for diagnostic in diagnostics) or str(error)
        return failure("error", "invalid MLIR", message, names, place)
    where = type(error).__name__
    is_ours = type(error).__module__.startswith(__name__.partition(".")[0])
    return failure("error", where if is_ours else f"{where} in {_innermost(error)}", str(error), names, place)


def _innermost(error: BaseException) -> str:
    """Returns the file and the function that raised an unexpected exception."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}, {frames[-1].name}" if frames else ""


def learnt(
    test: CompileTest, case: Case, observe: Callable[[CompileTest, Case], Sequence[FailureSignature]]
) -> tuple[CompileTest, list[FailureSignature]]:
    """Returns a test for the failures of a case, and these failures.

    The test notes passes only if this is needed to attribute a crash. If a pass before the phase `graph` fails, the
    test ends at that phase.
    """
    found = list(observe(test, case))
    if any(item.kind in ("crash", "time", "memory") and not item.where for item in found):
        watching = replace(test, watches=True)
        named = list(observe(watching, case))
        is_same = [(item.kind, item.pattern) for item in named] == [(item.kind, item.pattern) for item in found]
        test, found = (watching, named) if is_same else (test, found)
    if any(item.kind in ("pass", "crash") and item.where for item in found):
        early = replace(test, until="graph")
        again = list(observe(early, case))
        if len(again) == len(found) and all(map(FailureSignature.is_like, again, found)):
            return early, found
    return test, found
