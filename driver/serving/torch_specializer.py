"""Provides the code of PyTorch programs; ops that cannot be compiled run in PyTorch, between compiled pieces."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ...passes.infra.failure import CompileError
from ...runtime.cache.keys import key_of
from ...runtime.host.fallback import Fallback, FallbackWarning, read_fallback
from ...runtime.program import Program, Shape, TensorInfo
from ...runtime.progress.progress import CompileReporter
from ...runtime.specialization.interfaces import CALL, ByContents, Contents, HybridModel, SizePolicy
from ...sizes.buckets import Buckets
from ...sizes.expressions import Expression
from ...support.errors import StepwellError
from ...support.warning import warn
from ...support.wording import quantity
from ..caching import plugins
from ..caching.cache_key import CacheKey
from ..caching.fingerprint import fingerprint
from ..setup import Setup
from .specializer import Specializer

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
        if (known := self._known()) or self.program.interface.needs_pieces:
            return self._steps(known or self._unsupported(dict(zip(self.names, shapes, strict=True))))
        try:
            return super().__call__(shapes, contents, why)
        except CompileError as error:
            return self._steps(self._around(error, dict(zip(self.names, shapes, strict=True))))

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
    ) -> tuple[list[Program], str]:
        """See `Specializer`; a divided program has no code of its own, only its pieces have."""
        try:
            is_divided = self._known() or self.program.interface.needs_pieces
            return ([], "") if is_divided else super().for_buckets(inputs, buckets, derived)
        except _DividedError:
            return [], ""

    def _compile_buckets(
        self,
        key: CacheKey,
        reporter: CompileReporter,
        inputs: Sequence[TensorInfo],
        buckets: Buckets,
        derived: Mapping[str, Expression],
        may_fail: bool = True,
    ) -> list[Program]:
        from ..compile.ranges import RangedModel

        with RangedModel(self.source, inputs, derived).assumed(buckets[-1]) as shapes:
            if may_fail and self._unsupported(shapes):
                raise _DividedError("some ops run in PyTorch")
        return super()._compile_buckets(key, reporter, inputs, buckets, derived, may_fail)

    def _around(self, error: CompileError, shapes: Mapping[str, Shape]) -> dict[str, Fallback]:
        """Returns the ops to run in torch after a failed compile: those without code, else those at fault, else all.

        Raises:
            CompileError: none may run in torch, or the program cannot be read.
        """
        from ...frontend.errors import ModelError
        from ...passes.infra.failure import one_line
        from ...passes.ir.locations import names_in

        program = self.program
        if isinstance(error, ModelError):
            found = self._unsupported(shapes)
            if not found:
                raise error
            return found
        if self.setup.options.fallback == "error":
            raise error
        reason = f"the compiler failed: {one_line(str(error))}"
        return program.nodes_named(names_in(getattr(error, "location", None)), reason) or program.all_nodes(reason)

    def _steps(self, found: Mapping[str, Fallback]) -> HybridModel:
        from ...frontend.torch.steps import TorchSteps

        made = TorchSteps(self.program, found, self.compile_piece_of)
        report_fallbacks(self.source.name, made.division.fallbacks, self.setup)
        return made

    @property
    def program(self) -> LiveProgram:
        """The program."""
        return self.source.exported  # type: ignore[union-attr]  # never a subgraph of an ONNX model

    def _unsupported(self, shapes: Mapping[str, Shape]) -> dict[str, Fallback]:
        """Finds the ops without code, by the names of their nodes; they are stored in the cache."""
        found = self.program.unsupported(shapes, self.source.counts_elements)
        if found and self.setup.cache is not None:
            records = {name: item.record() for name, item in found.items()}
            self.setup.cache.put("torch", self._key, json.dumps(records).encode())
        return found

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
    """Returns the warning about ops that torch runs: each op with the paths of its modules and the reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for item in found:
        reasons.setdefault((item.operator, item.reason), []).append(item.node)
    lines = [f"{operator} ({_listed(nodes)}): {reason}" for (operator, reason), nodes in list(reasons.items())[:_SHOWN]]
    more = [f"and {len(reasons) - _SHOWN} more kinds"] if len(reasons) > _SHOWN else []
    return f"{name}: {quantity(len(found), 'op')} run in PyTorch between compiled pieces: {'; '.join(lines + more)}"


def _listed(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    return ", ".join(nodes[:_SHOWN]) + more
