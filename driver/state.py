"""The state of a compile for a target."""

from __future__ import annotations

from typing import Any

from ..passes.infra.state import CompileState
from ..targets.registry import target_of


def state_for(target: str, **fields: Any) -> CompileState:
    """Returns the state of a new compile.

    Args:
        target: the name of the target.
        fields: other fields of the state.

    Raises:
        TargetError: there is no such target.
    """
    return CompileState(**fields, target=target, machine=target_of(target).machine)
