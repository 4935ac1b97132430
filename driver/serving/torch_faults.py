"""Search for the ops at which the compile of a torch program fails, so that PyTorch runs only these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...passes.infra.failure import CompileError, one_line
from ...runtime.host.fallback import Fallback
from ...support.errors import OptionError, StepwellError
from ..caching.cache_key import CacheMissError

if TYPE_CHECKING:
    from ...frontend.torch.live import LiveProgram
    from ...runtime.executable import Executable

    Node = Any  # of torch.fx

Made = TypeVar("Made")

_MOST_ROUNDS = 8
"""Number of failed compiles of one program after which PyTorch runs all of it: a choice that bounds the time."""
_MOST_TESTS = 40
"""Number of compiles of parts of a piece after which a search stops: enough for three ops among 1,000 nodes."""
_MOST_TEXT = 300
"""Number of characters of an error that a reason quotes."""

REQUESTED = (CacheMissError, OptionError)
"""Errors about what the caller asked for, which no other division of the program avoids."""

_STRICT: ContextVar[bool] = ContextVar("strict", default=False)


class PieceFailure(StepwellError):
    """A piece of a program of torch cannot be compiled.

    Attributes:
        program: the piece.
        error: the error of its compile.
    """

    def __init__(self, program: LiveProgram, error: Exception) -> None:
        super().__init__(str(error))
        self.program, self.error = program, error


def is_strict() -> bool:
    """Returns whether a piece that cannot be compiled is to raise an error, so that its program is divided again."""
    return _STRICT.get()


@dataclass(frozen=True)
class StrictCompiler:
    """Compiles pieces without ops for torch inside of them.

    Attributes:
        compile_piece: compiles a piece.
        sizes: values of symbolic sizes in the call that needs code, which is compiled at once; other calls compile it
            for themselves.
    """

    compile_piece: Callable[[LiveProgram], Executable]
    sizes: Mapping[Any, int] = field(default_factory=dict)

    def __call__(self, piece: LiveProgram) -> Executable:
        """Compiles a piece.

        Raises:
            PieceFailure: it cannot be compiled.
        """
        token = _STRICT.set(True)
        try:
            executable = self.compile_piece(piece)
            shapes = piece.shapes_at(self.sizes) if self.sizes else None
            if shapes is not None:
                arrays = [np.zeros(shapes[info.name], info.dtype) for info in executable.inputs]
                executable.code.choose(tuple([array.shape for array in arrays]), arrays)
            return executable
        except REQUESTED:
            raise
        except Exception as error:  # an error of the compiler must not end the program of its user
            raise PieceFailure(piece, error) from error
        finally:
            _STRICT.reset(token)


def around_failures(
    make: Callable[[Mapping[str, Fallback]], Made],
    nodes: Iterable[Node],
    compiler: StrictCompiler,
    found: Mapping[str, Fallback] | None = None,
) -> Made:
    """Divides a program and compiles its pieces; ops at which that fails are left to torch, at last all ops.

    Args:
        make: divides the program, given the ops for torch by the names of their nodes, and compiles its pieces.
        nodes: the nodes of the program.
        compiler: compiles its pieces.
        found: ops for torch that are known.
    """
    ops = [node for node in nodes if node.op == "call_function"]
    known = dict(found or {})
    last: Exception | None = None
    for _ in range(_MOST_ROUNDS):
        try:
            return make(known)
        except PieceFailure as failure:
            last = failure.error
            new = FaultSearch(failure.program, compiler).ops_at_fault(last, known)
        new = {node.name: new[node.name] for node in ops if node.name in new and node.name not in known}
        if not new:
            break
        known |= _with_same_targets(new, known, ops)
    assert last is not None
    return make(everything(ops, last))


def raising_causes(make: Callable[[Mapping[str, Fallback]], Made], found: Mapping[str, Fallback]) -> Made:
    """Divides a program and compiles its pieces, of which none may fail.

    Raises:
        Exception: the error of a piece.
    """
    try:
        return make(found)
    except PieceFailure as failure:
        raise failure.error from None


def everything(nodes: Iterable[Node], error: Exception) -> dict[str, Fallback]:
    """Returns all ops, by the names of their nodes, to run in torch because of an error."""
    from ...frontend.torch.node import fallback_of

    reason = reason_of(error)
    ops = (node for node in nodes if node.op in ("call_function", "call_method", "call_module"))
    return {node.name: fallback_of(node, reason, "error") for node in ops}


def reason_of(error: Exception) -> str:
    """Returns, in a line, why torch runs the ops at which the compiler failed; `Fallback` has the pass."""
    from ...frontend.errors import ModelError
    from ...passes.infra.runner import PassFailure

    text = one_line(error.reason if isinstance(error, ModelError | PassFailure) else str(error))
    if not isinstance(error, StepwellError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"the compiler failed: {text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + '...'}"


def _with_same_targets(
    new: Mapping[str, Fallback], known: Mapping[str, Fallback], ops: Sequence[Node]
) -> dict[str, Fallback]:
    """Adds the ops that are called like one that failed twice: such an op fails as such."""
    failed = {item.op_type for item in known.values() if item.kind == "error"}
    again = {node.target: new[node.name] for node in ops if node.name in new and new[node.name].op_type in failed}
    more = {
        node.name: _alike(node, why)
        for node in ops
        if (why := again.get(node.target)) is not None and node.name not in known
    }
    return {**more, **new}


class FaultSearch:
    """The search for the ops of one piece at which its compile fails."""

    def __init__(self, program: LiveProgram, compiler: StrictCompiler) -> None:
        self._program, self._compiler = program, compiler
        self._tests = 0
        self._found: dict[str, Fallback] = {}
        self._has_ended = False

    def ops_at_fault(self, error: Exception, known: Mapping[str, Fallback]) -> dict[str, Fallback]:
        """Returns the ops that an error is about, by the names of their nodes: those it names, or those of a search.

        Args:
            error: the error of the compile.
            known: ops that torch runs already.
        """
        found = self._not_imported(error)
        if found:
            return found
        named = [name for name in self._named(error) if name not in known]
        ops = [node for node in self._program.program.graph.nodes if _is_candidate(node)]
        # A kernel stands for several ops, of which some may be innocent.
        self._visit([node for node in ops if node.name in named] or ops, error)
        return self._found

    def _not_imported(self, error: Exception) -> dict[str, Fallback]:
        """The ops that cannot be imported, if the error is about one."""
        from ...frontend.errors import ModelError

        if not isinstance(error, ModelError):
            return {}
        try:
            return self._program.unsupported(self._program.shapes_at(self._compiler.sizes) or {})
        except ModelError:  # one about inputs or weights: a search finds out who reads them
            return {}

    def _named(self, error: Exception) -> list[str]:
        """The names of the nodes that an error of the compiler is about."""
        from ...passes.ir.locations import names_in

        if not isinstance(error, CompileError):
            return []
        ops = () if error.failure is None else error.failure.ops
        return self._program.nodes_named(names_in(getattr(error, "location", None)) or [op.name for op in ops])

    def _visit(self, part: Sequence[Node], error: Exception) -> None:
        """Finds ops at fault among some that cannot be compiled together."""
        if len(part) == 1 or self._tests >= _MOST_TESTS:
            return self._add(part, error)
        half = len(part) // 2
        results = [self._fails(item) for item in (part[:half], part[half:])]
        if not any(results):
            self._add([self._last_of_prefix(part, half)], error)

    def _fails(self, part: Sequence[Node]) -> bool:
        """Returns whether some ops cannot be compiled, and finds those at fault; True once the search has ended."""
        error = None if self._has_ended else self._error_of(part)
        if error is not None:
            self._visit(part, error)
        return self._has_ended or error is not None

    def _last_of_prefix(self, part: Sequence[Node], passing: int) -> Node:
        """The last node of the shortest prefix that fails, given the length of one that does not, by bisection."""
        failing = len(part)
        while failing - passing > 1:
            middle = (passing + failing) // 2
            passing, failing = (passing, middle) if self._error_of(part[:middle]) is not None else (middle, failing)
        return part[failing - 1]

    def _add(self, part: Sequence[Node], error: Exception) -> None:
        from ...frontend.torch.node import fallback_of, overload_of

        found = [_detailed(fallback_of(node, reason_of(error), "error"), error) for node in part]
        alone = found[0].op_type if len(found) == 1 else ""
        if any(item.op_type == alone for item in self._found.values()):
            # All ops that are called like two at fault are too. The next compile shows whether others are.
            self._has_ended = True
            nodes = [node for node in self._program.program.graph.nodes if _is_candidate(node)]
            self._found |= {node.name: _alike(node, found[0]) for node in nodes if overload_of(node.target) == alone}
        self._found |= {node.name: item for node, item in zip(part, found, strict=True)}

    def _error_of(self, part: Sequence[Node]) -> Exception | None:
        """Compiles some ops, while torch would run all others; returns the error."""
        from ...frontend.torch.node import fallback_of
        from ...frontend.torch.steps import TorchSteps

        self._tests += 1
        nodes = self._program.program.graph.nodes
        others = {node.name: fallback_of(node, "") for node in nodes if _is_candidate(node) and node not in part}
        try:
            TorchSteps(self._program, others, self._compiler)
        except PieceFailure as failure:
            return failure.error
        return None


def _is_candidate(node: Node) -> bool:
    """Returns whether torch could run a node by itself: it runs an item of a tuple where it runs the tuple's op."""
    return node.op == "call_function" and getattr(node.target, "__name__", "") != "getitem"


def _alike(node: Node, why: Fallback) -> Fallback:
    """Returns the account of a node at fault that is called like another."""
    from ...frontend.torch.node import fallback_of

    return replace(fallback_of(node, why.reason, "error"), phase=why.phase, pass_name=why.pass_name)


def _detailed(found: Fallback, error: Exception) -> Fallback:
    if not isinstance(error, CompileError):
        return found
    reproducer = "" if error.reproducer is None else str(error.reproducer)
    return replace(found, phase=error.phase, pass_name=error.pass_name, reproducer=reproducer)
