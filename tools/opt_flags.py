"""The flags of `stepwell-opt`, and what those of them mean that are about printing and watching passes."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path

from mlir import ir
from mlir.passmanager import PassDisplayMode

from ..passes.discovery import find_pass, load_plugin, pass_names
from ..passes.help import list_passes
from ..passes.instrumentation import Instrumentation, PrintFlags, PrintIR, always, never
from ..passes.options import suggestion
from ..passes.sources import DEFAULT_MARKER
from ..passes.upstream import anchor_of, upstream_passes
from .flags import CommandLine, Flag, UsageError

FLAGS = (
    Flag("allow-unregistered-dialect", "accept ops of dialects that are not known"),
    Flag("compile-from", "with --compile-to: the phase that the input is in (default: import)", "phase"),
    Flag("compile-to", "run the phases of the compiler up to this one instead of passes", "phase"),
    Flag("dump-pass-pipeline", "print the pipeline before running it"),
    Flag("emit-bytecode", "write bytecode instead of text"),
    Flag("help", "print this"),
    Flag("list-passes", "print all passes with their options"),
    Flag("load-pass-plugin", "load passes from these Python modules or files", "module|file.py,..."),
    Flag("mlir-disable-threading", "run on one thread, as is done anyway"),
    Flag("mlir-elide-elementsattrs-if-larger", "print `...` for element lists longer than this", "number"),
    Flag("mlir-elide-resource-strings-if-larger", "leave out resources longer than this", "number"),
    Flag("mlir-pass-pipeline-crash-reproducer", "where to write a reproducer when a pass fails or crashes", "file"),
    Flag("mlir-pass-statistics", "print what passes counted"),
    Flag("mlir-pass-statistics-display", "how to print it", "list|pipeline"),
    Flag("mlir-pretty-debuginfo", "print locations in a shorter form"),
    Flag("mlir-print-assume-verified", "print without verifying first"),
    Flag("mlir-print-debuginfo", "print locations"),
    Flag("mlir-print-ir-after", "print the IR after these passes", "pass,..."),
    Flag("mlir-print-ir-after-all", "print the IR after every pass"),
    Flag("mlir-print-ir-after-change", "when printing after a pass, only print if it changed the IR"),
    Flag("mlir-print-ir-after-failure", "print the IR after a pass that failed"),
    Flag("mlir-print-ir-before", "print the IR before these passes", "pass,..."),
    Flag("mlir-print-ir-before-all", "print the IR before every pass"),
    Flag("mlir-print-ir-module-scope", "always print the whole module"),
    Flag("mlir-print-ir-tree-dir", "print the IR to a tree of files in this folder", "folder"),
    Flag("mlir-print-local-scope", "print attributes and types inline, without aliases"),
    Flag("mlir-print-op-generic", "print ops in their generic form"),
    Flag("mlir-print-skip-regions", "leave out the regions of ops"),
    Flag("mlir-timing", "print where the time went"),
    Flag("mlir-timing-display", "how to print it (default: tree)", "list|tree"),
    Flag("mlir-use-nameloc-as-prefix", "name values after their locations"),
    Flag("no-implicit-module", "the input is one operation, with no module around it"),
    Flag("o", "where to write the output", "file"),
    Flag("output-split-marker", "what to print between the parts of a split input", "marker"),
    Flag("pass-pipeline", "the passes to run, as builtin.module(pass,func.func(pass{option=value}))", "text"),
    Flag("run-reproducer", "run the pipeline that the input carries"),
    Flag("show-dialects", "print the names of all dialects"),
    Flag(
        "split-input-file",
        "take the parts of the input between markers for files of their own",
        "marker",
        DEFAULT_MARKER,
    ),
    Flag("target", "with --compile-to: the machine to generate code for (default: cpu)", "name"),
    Flag(
        "verify-diagnostics", "check diagnostics against `expected-error {{..}}` comments", "all|only-expected", "all"
    ),
    Flag("verify-each", "verify after every pass (default: true)"),
    Flag("version", "print the version"),
)


def load_plugins(line: CommandLine) -> None:
    """Loads what registers more passes.

    Raises:
        UsageError: a module cannot be loaded.
    """
    for name in filter(None, line.values.get("load-pass-plugin", "").split(",")):
        try:
            load_plugin(name)
        except Exception as error:
            raise UsageError(f"failed to load passes from '{name}': {type(error).__name__}: {error}") from error


def help_text() -> str:
    """The answer to `--help`."""
    lines = [f"  {flag.usage}".ljust(56) + f"- {flag.help}" for flag in FLAGS]
    head = "USAGE: stepwell-opt [options] [--pass{option=value} ...] <input file>\n\nOPTIONS:\n"
    return head + "\n".join(lines) + "\n\n" + list_passes().rstrip()


def nest(passes: Sequence[str]) -> list[str]:
    """Passes that were given one by one, each inside the op that it runs on, as pipeline elements for a module.

    Raises:
        UsageError: there is no such pass.
    """
    return [_nest(element) for element in passes]


def _nest(element: str) -> str:
    name = element.partition("{")[0]
    python_pass = find_pass(name)
    anchor = anchor_of(name) if python_pass is None else python_pass.anchor
    if anchor is None:
        near = suggestion(name, [*upstream_passes(), *pass_names(), *(flag.name for flag in FLAGS)])
        raise UsageError(f"Unknown command line argument '--{name}'.  Try: 'stepwell-opt --help'{near}")
    return element if anchor in ("builtin.module", "any") else f"{anchor}({element})"


def instrumentation(line: CommandLine) -> list[Instrumentation]:
    """What has to watch the passes so that the IR is printed where it was asked for.

    Raises:
        UsageError: a pass to print at does not exist.
    """
    before = _selector(line, "mlir-print-ir-before")
    after = _selector(line, "mlir-print-ir-after")
    on_change = line.has("mlir-print-ir-after-change")
    on_failure = line.has("mlir-print-ir-after-failure")
    if before is never and after is never and not on_failure and not on_change:
        return []
    if after is never and on_change:
        after = always
    folder = line.values.get("mlir-print-ir-tree-dir")
    return [
        PrintIR(
            before=before,
            after=after,
            only_on_change=on_change,
            on_failure=on_failure,
            module_scope=line.has("mlir-print-ir-module-scope"),
            flags=print_flags(line),
            folder=None if folder is None else Path(folder),
        )
    ]


def _selector(line: CommandLine, flag: str) -> Callable[[str], bool]:
    if line.has(f"{flag}-all"):
        return always
    if flag not in line.values:
        return never
    names = line.values[flag].split(",")
    for name in names:
        if find_pass(name) is None and anchor_of(name) is None:
            near = suggestion(name, [*upstream_passes(), *pass_names()])
            raise UsageError(f"for the --{flag} option: Cannot find option named '{name}'!{near}")
    return names.__contains__


def statistics(line: CommandLine) -> PassDisplayMode | None:
    """Whether and how MLIR prints statistics."""
    if not line.has("mlir-pass-statistics"):
        return None
    is_list = line.values.get("mlir-pass-statistics-display") == "list"
    return PassDisplayMode.LIST if is_list else PassDisplayMode.PIPELINE


def print_flags(line: CommandLine) -> PrintFlags:
    """How IR is printed."""
    return PrintFlags(
        large_elements_limit=line.number("mlir-elide-elementsattrs-if-larger"),
        large_resource_limit=line.number("mlir-elide-resource-strings-if-larger"),
        enable_debug_info=line.has("mlir-print-debuginfo") or line.has("mlir-pretty-debuginfo"),
        pretty_debug_info=line.has("mlir-pretty-debuginfo"),
        print_generic_op_form=line.has("mlir-print-op-generic"),
        use_local_scope=line.has("mlir-print-local-scope"),
        use_name_loc_as_prefix=line.has("mlir-use-nameloc-as-prefix"),
        assume_verified=line.has("mlir-print-assume-verified"),
        skip_regions=line.has("mlir-print-skip-regions"),
    )


def output_of(op: ir.Operation, line: CommandLine) -> bytes:
    """The result as it is written: text, or bytecode if asked for."""
    if not line.has("emit-bytecode"):
        return f"{print_flags(line).print(op)}\n".encode()
    buffer = io.BytesIO()
    op.write_bytecode(buffer)
    return buffer.getvalue()
