"""The flags of `stepwell-opt`, lookup of pass and flag names, and the output of informational flags."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from ..passes.infra.sources import DEFAULT_MARKER
from .flags import CommandLine, Flag, UsageError, nearest_name, parse
from .running import load_plugin

_BOTH = "all|only-expected"

FLAGS = (
    Flag("allow-unregistered-dialect", "accept ops of dialects that are not known"),
    Flag("compile-from", "with --compile-to: the phase that the input is in (default: import)", "phase"),
    Flag("compile-to", "run the phases of the compiler up to this one instead of passes", "phase"),
    Flag("dump-pass-pipeline", "print the pipeline with all options before running it"),
    Flag("emit-bytecode", "write bytecode instead of text"),
    Flag("emit-bytecode-version", "with --emit-bytecode: the version to write", "number", kind="version"),
    Flag("h", "the same as --help", kind="none", alias_of="help"),
    Flag("help", "print this", kind="none"),
    Flag("irdl-file", "define the IRDL dialects in this file before reading the input", "file"),
    Flag("list-passes", "print all passes with their options"),
    Flag("load-pass-plugin", "load passes from these Python modules or files", "module|file.py,..."),
    Flag(
        "mlir-diagnostic-verbosity-level",
        "the least severe diagnostics to print (default: remarks)",
        "errors|warnings|remarks",
        choices=("errors", "warnings", "remarks"),
    ),
    Flag("mlir-disable-diagnostic-notes", "accepted, without effect, as in mlir-opt"),
    Flag("mlir-disable-threading", "run on one thread", is_llvm=True),
    Flag(
        "mlir-elide-elementsattrs-if-larger",
        "print `...` for element lists longer than this",
        "number",
        kind="uint",
        is_llvm=True,
    ),
    Flag(
        "mlir-elide-resource-strings-if-larger",
        "leave out resources longer than this",
        "number",
        kind="uint",
        is_llvm=True,
    ),
    Flag("mlir-generate-reproducer", "write the result and the pipeline to this file", "file"),
    Flag("mlir-output-format", "the format of --mlir-timing (default: text)", "text|json", choices=("text", "json")),
    Flag("mlir-pass-pipeline-crash-reproducer", "where to write a reproducer when a pass fails or crashes", "file"),
    Flag("mlir-pass-pipeline-local-reproducer", "have that reproducer run only the pass that failed"),
    Flag("mlir-pass-statistics", "print the statistics of passes"),
    Flag("mlir-pass-statistics-display", "how to print it", "list|pipeline", choices=("list", "pipeline")),
    Flag("mlir-pretty-debuginfo", "print locations in a shorter form", is_llvm=True),
    Flag("mlir-print-assume-verified", "print without verifying first", is_llvm=True),
    Flag("mlir-print-debuginfo", "print locations", is_llvm=True),
    Flag(
        "mlir-print-elementsattrs-with-hex-if-larger",
        "print element lists longer than this in hexadecimal; never for -1",
        "number",
        kind="long",
        is_llvm=True,
    ),
    Flag("mlir-print-ir-after", "print the IR after these passes", "pass,...", ""),
    Flag("mlir-print-ir-after-all", "print the IR after every pass"),
    Flag("mlir-print-ir-after-change", "when printing after a pass, only print if it changed the IR"),
    Flag("mlir-print-ir-after-failure", "when printing after a pass, only print if it failed"),
    Flag("mlir-print-ir-before", "print the IR before these passes", "pass,...", ""),
    Flag("mlir-print-ir-before-all", "print the IR before every pass"),
    Flag("mlir-print-ir-module-scope", "always print the whole module; needs --mlir-disable-threading"),
    Flag("mlir-print-ir-tree-dir", "print the IR to a tree of files in this folder", "folder"),
    Flag("mlir-print-local-scope", "print attributes and types inline, without aliases", is_llvm=True),
    Flag("mlir-print-op-generic", "print ops in their generic form", is_llvm=True),
    Flag("mlir-print-op-on-diagnostic", "print the op with each diagnostic about it (default: true)", is_llvm=True),
    Flag("mlir-print-skip-regions", "leave out the regions of ops", is_llvm=True),
    Flag("mlir-print-stacktrace-on-diagnostic", "print the native stack with each diagnostic", is_llvm=True),
    Flag("mlir-print-unique-ssa-ids", "number values without starting again in each function", is_llvm=True),
    Flag("mlir-print-value-users", "print the users of values as comments", is_llvm=True),
    Flag("mlir-timing", "print the times of passes"),
    Flag("mlir-timing-display", "how to print it (default: tree)", "list|tree", choices=("list", "tree")),
    Flag("mlir-use-nameloc-as-prefix", "name values after their locations", is_llvm=True),
    Flag("no-implicit-module", "the input is one operation, with no module around it"),
    Flag("o", "where to write the output", "file"),
    Flag("op-coverage", "print which interfaces each declared op implements"),
    Flag("output-split-marker", "what to print between the parts of a split input", "marker"),
    Flag("p", "the same as --pass-pipeline", "text", alias_of="pass-pipeline"),
    Flag("pass-pipeline", "the passes to run, as builtin.module(pass,func.func(pass{option=value}))", "text"),
    Flag(
        "remark-format", "how to print remarks (default: emitRemark)", "emitRemark|yaml", choices=("emitRemark", "yaml")
    ),
    Flag("remarks-filter", "print the remarks of the passes that match, of every kind", "regex"),
    Flag("remarks-filter-analyse", "print what these passes found out", "regex"),
    Flag("remarks-filter-missed", "print what these passes did not do, and why", "regex"),
    Flag("remarks-filter-passed", "print what these passes did", "regex"),
    Flag("remarks-output-file", "where to write remarks as YAML (default: mlir-remarks.yaml)", "file"),
    Flag("run-reproducer", "run the pipeline stored in the input"),
    Flag("show-dialects", "print the names of all dialects"),
    Flag(
        "split-input-file",
        "process the parts of the input between markers as separate files",
        "marker",
        DEFAULT_MARKER,
    ),
    Flag("target", "the machine to generate code for (default: cpu with --compile-to, else x86-64-v4)", "name"),
    Flag(
        "verify-diagnostics",
        "check diagnostics against `expected-error {{..}}` comments",
        _BOTH,
        "all",
        choices=("", "all", "only-expected"),
    ),
    Flag("verify-each", "verify after every pass (default: true)"),
    Flag("verify-roundtrip", "check that the IR stays the same when it is written as bytecode and read again"),
    Flag("version", "print the version", kind="none"),
)
UNSUPPORTED = (
    "elide-resource-data-from-bytecode",
    "load-dialect-plugin",
    "log-actions-to",
    "log-mlir-actions-filter",
    "mlir-debug-counter",
    "mlir-enable-debugger-hook",
    "mlir-print-debug-counter",
    "mlir-very-unsafe-disable-verifier-on-parsing",
    "profile-actions-to",
    "remark-policy",
    "remarks-filter-failed",
)
"""Flags of `mlir-opt` that MLIR's bindings do not support; the documentation lists them."""


def read_line(program: str, arguments: Sequence[str]) -> CommandLine:
    """Parses the command line, after loading the plug-ins that it names.

    Raises:
        UsageError: the command line is invalid.
    """
    for name in _plugins(arguments):
        _load_plugin(program, name)
    line = parse(program, arguments, FLAGS, _is_pass, _llvm_flags, lambda name: nearest_name(name, all_names()))
    given = next((name for argument in arguments for name in UNSUPPORTED if _is_flag(argument, name)), None)
    if given is not None:
        raise UsageError(f"{program}: the --{given} option needs parts of MLIR that its Python bindings lack")
    for flag in ("mlir-print-ir-before", "mlir-print-ir-after"):
        for name in (name for value in line.values.get(flag, ()) for name in value.split(",")):
            if not _is_pass(name):
                raise UsageError(f"{program}: for the --{flag} option: Cannot find option named '{name}'!")
    return line


def _is_flag(argument: str, name: str) -> bool:
    return argument.startswith("-") and argument.lstrip("-").partition("=")[0] == name


def _plugins(arguments: Sequence[str]) -> Iterator[str]:
    following = [*arguments[1:], ""]
    for argument, after in zip(arguments, following, strict=False):
        if _is_flag(argument, "load-pass-plugin"):
            yield from filter(None, (argument.partition("=")[2] or after).split(","))


def _load_plugin(program: str, name: str) -> None:
    try:
        load_plugin(name)
    except UsageError as error:
        raise UsageError(f"{program}: {error}") from error


def _is_pass(name: str) -> bool:
    from ..passes.infra.upstream import anchor_of

    return anchor_of(name) is not None or is_python_pass(name)


def is_python_pass(name: str) -> bool:
    """Returns whether there is a Python pass of that name; searches only if MLIR has none, as the search is slow."""
    from ..passes.infra.upstream import anchor_of

    has_plugins = "stepwell.passes.infra.discovery" in sys.modules
    if anchor_of(name) is not None and not has_plugins:
        return False
    from ..passes.infra.discovery import find_pass

    return find_pass(name) is not None


def _llvm_flags() -> dict[str, bool]:
    from ..passes.ir.native import llvm_flags

    return llvm_flags() | dict.fromkeys(UNSUPPORTED, False)


def all_names() -> Iterator[str]:
    """Yields the names of all flags and passes, the candidates for correcting an unknown name."""
    from ..passes.infra.discovery import pass_names
    from ..passes.infra.upstream import upstream_passes

    yield from (flag.name for flag in FLAGS)
    yield from upstream_passes()
    yield from pass_names()
    yield from sorted(_llvm_flags())


def answer(line: CommandLine) -> str | None:
    """Returns the output of an informational flag; None if none was given."""
    if line.has("version"):
        from importlib.metadata import version

        return f"Stepwell {version('stepwell')} on MLIR {version('xtc-mlir-python-bindings')}"
    if line.has("help"):
        return _help_text()
    if line.has("list-passes"):
        from ..passes.help import list_passes

        return list_passes().rstrip()
    if line.has("op-coverage"):
        from ..explain.op_coverage import op_coverage

        return op_coverage()
    if line.has("show-dialects"):
        return "Available Dialects: " + ",".join(_dialects())
    return None


def _help_text() -> str:
    from ..passes.help import list_passes

    lines = [f"  {flag.usage}".ljust(56) + f"- {flag.help}" for flag in FLAGS]
    head = "USAGE: stepwell-opt [options] [--pass[=option=value ...]] <input file>\n\nOPTIONS:\n"
    return head + "\n".join(lines) + "\n\n" + list_passes().rstrip()


def _dialects() -> list[str]:
    """Returns the names of all dialects, which MLIR lists only in an error message."""
    from ..dialects.registry import load_dialects

    # isort: split
    from mlir import ir

    from ..passes.infra.diagnostics import MLIRError

    context = ir.Context()
    load_dialects(context)
    with context:
        try:
            ir.Module.parse("no_such_dialect.op")
        except MLIRError as error:
            listed = str(error).partition("Available dialects: ")[2].partition(";")[0]
            return [name.partition(" (")[0].strip() for name in listed.split(",")]
    return []
