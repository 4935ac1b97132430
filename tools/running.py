"""Runs a tool: an error becomes one line and an exit code, and with `--json` a record."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from typing import Any

from ..support import environment
from ..support.environment import VariableError
from ..support.packages import MissingPackageError
from .flags import UsageError
from .supervisor import run_supervised

_WRONG_USAGE = 2
"""Exit code of wrong usage, as of argparse and of shells."""
_INTERRUPTED = 130
"""Exit code after Ctrl-C, as of shells: 128 and the number of SIGINT."""

RecordPrinter = Callable[[Mapping[str, Any]], None]


class _Silent(io.TextIOBase):
    """A standard output that shows no messages; files that go there are written to its buffer."""

    def __init__(self, stream: Any) -> None:
        self.buffer = stream.buffer

    def write(self, text: str) -> int:
        return len(text)


def run_tool(
    name: str, work: Callable[[], int], print_record: RecordPrinter | None = None, *, is_quiet: bool = False
) -> int:
    """Runs a tool; an error becomes one line on stderr and exit code 1, or 2 for wrong usage.

    `STEPWELL_DEBUG=1` also prints the traceback.

    Args:
        name: the tool's name in messages.
        work: does the work and returns the exit code.
        print_record: receives the record of a failure or of wrong usage; None without `--json`.
        is_quiet: whether to suppress warnings and, without `print_record`, messages on stdout.
    """

    def say(message: Warning | str, *_: Any) -> None:
        if not is_quiet:
            print(f"{name}: warning: {message}", file=sys.stderr)

    shown = redirect_stdout(_Silent(sys.stdout)) if is_quiet and print_record is None else nullcontext()
    try:
        with warnings.catch_warnings(), shown:
            warnings.showwarning = say
            environment.check()
            return work()
    except BrokenPipeError:
        # The reader closed the output; Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except (UsageError, VariableError) as error:
        print(f"{name}: error: {error}", file=sys.stderr)
        if print_record is not None:
            print_record(usage_record(str(error)))
        return _WRONG_USAGE
    except Exception as error:  # last resort of a tool: every error becomes one line
        if environment.debug_level():
            traceback.print_exc()
        failure = getattr(error, "failure", None)
        details = [] if failure is None else failure.lines()
        print("\n".join([f"{name}: error: {_one_line(error)}", *details]), file=sys.stderr)
        if print_record is not None:
            print_record(_record(error))
        return 1


def record_printer(options: argparse.Namespace) -> RecordPrinter | None:
    """Returns the function that prints the record of a failure as JSON; None without `--json`."""
    return print_json if options.json else None


def print_json(record: Mapping[str, Any]) -> None:
    """Prints a record as one line on the standard output."""
    print(json.dumps(record), flush=True)


def usage_record(reason: str) -> dict[str, Any]:
    """Returns the record of wrong usage."""
    return {"schema": 1, "kind": "usage", "reason": reason}


def _record(error: Exception) -> dict[str, Any]:
    """Returns the record of an error, with those keys of docs/failures.md that are known."""
    from ..passes.infra.failure import CompileError, Failure, ModelOp  # not needed by a tool that succeeds

    if not isinstance(error, CompileError):
        return {"schema": 1, "kind": "error", "reason": _one_line(error)}
    ops = (ModelOp(error.node, error.op_type),) if error.node else ()
    failure = error.failure or Failure(str(error), error.phase, error.pass_name, ops, error.kernel)
    return {**failure.record(), "kind": "compile"}


def _one_line(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    # With little memory, or few file descriptors left.
    if isinstance(error, ImportError) and not isinstance(error, MissingPackageError):
        return f"a library cannot be loaded: {error}"
    text = str(error).strip()
    is_ours = type(error).__module__.startswith("stepwell.") or isinstance(error, OSError)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"{error.filename}: {error.strerror}"
    return " / ".join(text.splitlines()) if is_ours and text else f"internal error: {type(error).__name__}: {text}"


def run_with(name: str, work: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Runs a tool with the options that all tools have, after it has loaded the plug-ins; see `run_tool`."""

    def loaded_work() -> int:
        for plugin in plugins_of(options):
            load_plugin(plugin)
        return work(options)

    return run_tool(name, loaded_work, record_printer(options), is_quiet=options.quiet)


def plugins_of(options: argparse.Namespace) -> list[str]:
    """Returns the modules and files that `--load-pass-plugin` names; none for a tool or action without the option."""
    return [name for name in getattr(options, "load_pass_plugin", "").split(",") if name]


def load_plugin(name: str) -> None:
    """Loads a module or file that `--load-pass-plugin` names.

    Raises:
        UsageError: it cannot be loaded.
    """
    from ..passes.infra import discovery  # which loads MLIR

    try:
        discovery.load_plugin(name)
    except Exception as error:  # the module may raise anything
        raise UsageError(f"failed to load passes from '{name}': {type(error).__name__}: {error}") from error


def run_isolated(
    name: str,
    work: Callable[[argparse.Namespace], int],
    options: argparse.Namespace,
    target: str,
    arguments: Sequence[str] | None,
) -> int:
    """Runs a tool in a child process, so that a crash of native code ends in a message too; see `run_supervised`.

    If a caller in Python gave the arguments, the tool runs in this process.
    """
    if arguments is not None:
        return run_with(name, work, options)
    return run_supervised(name, lambda: run_with(name, work, options), target, record_printer(options))
