"""Provides the code of PyTorch programs; ops that cannot be compiled run in PyTorch, between compiled pieces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ...passes.infra.failure import CompileError
from ...runtime.cache.keys import key_of
from ...runtime.host.fallback import Fallback, FallbackWarning, read_fallback
from ...runtime.program import Program, Shape, TensorInfo
from ...runtime.progress.progress import CompileReporter
from ...runtime.specialization.interfaces import CALL, ByContents, Contents, HybridModel, RangedCode, SizePolicy
from ...sizes.bounds import with_derived
from ...sizes.buckets import Buckets
from ...sizes.expressions import Expression
from ...sizes.ranges import Range
from ...support.errors import StepwellError
from ...support.warning import warn
from ...support.wording import quantity
from ..caching import plugins
from ..caching.cache_key import CacheKey
from ..caching.fingerprint import fingerprint
from ..setup import Setup
from .specializer import NoRangesError, Specializer
from .torch_faults import REQUESTED, FaultSearch, StrictCompiler, around_failures, is_strict, raising_causes, reason_of

if TYPE_CHECKING:
    from ...frontend.torch.live import LiveProgram
    from ...runtime.executable import Executable

_SHOWN = 8
"""Maximum number of kinds of ops, and of ops of a kind, that a warning names."""


@dataclass(frozen=True)
class TorchSpecializer(Specializer):
    """Compiles a program of torch; ops that cannot be compiled run in torch.

    Attributes:
        compile_piece_of: compiles a piece of the program.
    """

    compile_piece_of: Callable[[LiveProgram], Executable] = field(kw_only=True)

    def __call__(
        self, shapes: tuple[Shape, ...], contents: Contents, why: str = CALL
    ) -> Program | ByContents | HybridModel:
        """See `Specializer`."""
        if is_strict():
            return super().__call__(shapes, contents, why)
        given = dict(zip(self.names, shapes, strict=True))
        if (known := self._known()) or self.program.interface.needs_pieces:
            return self._steps(known or self._unsupported(given), given)
        try:
            return super().__call__(shapes, contents, why)
        except REQUESTED:
            raise
        except Exception as error:  # an error of the compiler must not end the program of its user
            return self._around(error, given)

    @property
    def policy(self) -> SizePolicy:
        """See `RangeCompiler`.

        The symbolic sizes of a piece have varied, or PyTorch was told that they do. Another process cannot compile it,
        as torch does not write graphs of Dynamo to files.
        """
        policy = super().policy
        return replace(policy, starts_in_range=True, adapts=False) if self.program.is_decomposed else policy

    def for_buckets(
        self, inputs: Sequence[TensorInfo], buckets: Buckets, derived: Mapping[str, Expression]
    ) -> RangedCode:
        """See `Specializer`; a divided program has no code of its own, only its pieces have."""
        try:
            is_divided = self._known() or self.program.interface.needs_pieces
            return RangedCode() if is_divided else super().for_buckets(inputs, buckets, derived)
        except _DividedError:
            return RangedCode()

    def _compile_buckets(
        self,
        key: CacheKey,
        reporter: CompileReporter,
        inputs: Sequence[TensorInfo],
        buckets: Buckets,
        derived: Mapping[str, Expression],
        may_fail: bool = True,
    ) -> list[Program]:
        from ...frontend.errors import NodeError
        from ..compile.ranges import RangedModel

        with RangedModel(self.source, inputs, derived).assumed(buckets[-1]) as shapes:
            varying = self._survey(shapes) if may_fail else {}
        # An op that can only be imported for known sizes has code for each of these.
        found = self._unsupported(_least_shapes(inputs, buckets[-1], derived)) if varying else {}
        if varying and not found:
            raise NoRangesError("; ".join(dict.fromkeys(item.reason for item in varying.values())))
        if found and not is_strict():
            raise _DividedError("some ops run in PyTorch")
        for item in found.values():
            raise NodeError(item.reason, node=item.node, op_type=item.op_type)
        # If a piece is at fault, torch runs an op of it, and code for ranges is compiled for the others.
        setup = self.setup.changed(fallback="error") if is_strict() and may_fail else self.setup
        try:
            return Specializer._compile_buckets(
                replace(self, setup=setup), key, reporter, inputs, buckets, derived, may_fail
            )
        except StepwellError:
            raise
        except Exception as error:  # an error of the compiler must not end the program of its user
            if (may_fail and is_strict()) or self._raises(error):
                raise
            raise NoRangesError(reason_of(error)) from error

    def _around(self, error: Exception, shapes: Mapping[str, Shape]) -> HybridModel:
        """Divides the program after a failed compile: torch runs the ops at fault.

        Raises:
            Exception: the error, if none may run in torch.
        """
        from ...frontend.errors import ModelError

        found = self._unsupported(shapes) if isinstance(error, ModelError) else {}
        if not found and self._raises(error):
            raise error
        return self._steps(found or FaultSearch(self.program, self._strict(shapes)).ops_at_fault(error, {}), shapes)

    def _raises(self, error: Exception) -> bool:
        """Returns whether an error is for the caller: none may run in torch, or it comes from code of the caller."""
        options = self.setup.options
        return options.fallback == "error" or (options.is_watched and not isinstance(error, CompileError))

    def _strict(self, shapes: Mapping[str, Shape]) -> StrictCompiler:
        return StrictCompiler(self.compile_piece_of, self.program.sizes_at(shapes))

    def _steps(self, found: Mapping[str, Fallback], shapes: Mapping[str, Shape]) -> HybridModel:
        from ...frontend.torch.steps import TorchSteps

        compiler = self._strict(shapes)

        def steps(found: Mapping[str, Fallback]) -> TorchSteps:
            return TorchSteps(self.program, found, compiler)

        if self.setup.options.fallback == "error":
            report_fallbacks(self.source.name, tuple(found.values()), self.setup)
            made = raising_causes(steps, found)
        else:
            made = around_failures(steps, self.program.program.graph.nodes, compiler, found)
        report_fallbacks(self.source.name, made.division.fallbacks, self.setup)
        return made

    @property
    def program(self) -> LiveProgram:
        """The program."""
        return self.source.exported  # type: ignore[union-attr]  # never a subgraph of an ONNX model

    def _unsupported(self, shapes: Mapping[str, Shape]) -> dict[str, Fallback]:
        """Finds the ops without code, by the names of their nodes; they are stored in the cache."""
        found = self._survey(shapes)
        if found and self.setup.cache is not None:
            records = {name: item.record() for name, item in found.items()}
            self.setup.cache.put("torch", self._key, json.dumps(records).encode())
        return found

    def _survey(self, shapes: Mapping[str, Sequence[Any]]) -> dict[str, Fallback]:
        """Finds the ops without code for shapes, whose sizes may be symbolic."""
        return self.program.unsupported(shapes, self.source.counts_elements)

    def _known(self) -> dict[str, Fallback]:
        """The ops without code, if an earlier process found them."""
        data = None if self.setup.cache is None else self.setup.cache.get("torch", self._key)
        records = {} if data is None else json.loads(bytes(data))
        return {name: read_fallback(record) for name, record in records.items()}

    @property
    def _key(self) -> str:
        return key_of(fingerprint(), plugins.fingerprint(), self.source.fingerprint)


class _DividedError(StepwellError):
    """Raised because a divided program has no code for ranges of its own; its pieces have."""


def _least_shapes(
    inputs: Sequence[TensorInfo], ranges: Mapping[str, Range], derived: Mapping[str, Expression]
) -> dict[str, Shape]:
    """Returns the shapes of inputs at the least sizes of ranges."""
    sizes = with_derived({name: item.low for name, item in ranges.items()}, derived)
    return {info.name: tuple(int(sizes.get(str(dim), dim)) for dim in info.shape) for info in inputs}


def report_fallbacks(name: str, found: Sequence[Fallback], setup: Setup) -> None:
    """Reports the ops of a program that torch runs.

    Args:
        name: the program's name in messages.
        found: the ops.
        setup: the target, and `Options.fallback`.

    Raises:
        UnsupportedError: no op may run in torch.
    """
    fallback = setup.options.fallback
    if not found or fallback == "quiet":
        return
    if fallback == "error":
        from ...frontend.errors import UnsupportedError

        reason = f"{quantity(len(found), 'op')} cannot be compiled, and none may run in torch"
        raise UnsupportedError.of_nodes(reason, found, model=name, target=setup.target)
    warn(_fallback_text(name, found), FallbackWarning)


def _fallback_text(name: str, found: Sequence[Fallback]) -> str:
    """Returns the warning about ops that torch runs: each op with its modules and lines of Python, and the reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for item in found:
        place = f"{item.node} at {item.line}" if item.line else item.node
        where = f" (in the pass {item.pass_name})" if item.pass_name else ""
        reasons.setdefault((item.operator, f"{item.reason}{where}"), []).append(place)
    lines = [
        f"{operator} ({_listed(places)}): {reason}" for (operator, reason), places in list(reasons.items())[:_SHOWN]
    ]
    more = [f"and {len(reasons) - _SHOWN} more kinds"] if len(reasons) > _SHOWN else []
    verb = "runs" if len(found) == 1 else "run"
    return f"{name}: {quantity(len(found), 'op')} {verb} in PyTorch between compiled pieces: {'; '.join(lines + more)}"


def _listed(places: Sequence[str]) -> str:
    more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more
