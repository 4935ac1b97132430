"""Ranges that are inferred from the sizes of calls, for models that are compiled without `Options.dims`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .buckets import names_of
from .dims_option import Dims, is_expression
from .ranges import HasShape, Range, power_above

_AMPLE = 512
"""Largest size seen for which a range ends at four times that size: padding costs little there, and growth is frequent.

Programs for up to 512 tokens of MiniLM take the time of programs for one length (bench/results).
"""

_AMPLE_BATCH = 32
"""The same for dimensions that are always the first one, such as batches."""

_GRID = 32
"""Largest step of a range, a power of two. If all sizes of an image are multiples of it, a range with this step is
tried first: image models often fail at others. Smaller steps are tried if there is no program for all sizes.
"""


def inferred_dims(
    seen: Sequence[Mapping[str, int]], inputs: Sequence[HasShape], may_be_empty: bool = False
) -> list[Dims]:
    """Returns the ranges to try for a model, as values for `Options.dims`, the most useful first.

    Each is one bucket that contains all sizes seen. A dimension that had one size keeps it; all others start at 1 and
    end above the largest size, so that ranges grow in steps of at least two. The ranges after the first are for models
    that do not work at all of these sizes.

    Args:
        seen: the sizes so far, at least two different ones.
        inputs: the model's inputs.
        may_be_empty: whether sizes depend on data: ranges that start at 0 are tried first, and no dimension is a batch.
    """
    names = names_of(inputs)
    columns = {name: [sizes[name] for sizes in seen] for name in names if not is_expression(name, names)}
    varied = {name: column for name, column in columns.items() if len(set(column)) > 1}
    inner = [[dim for dim in info.shape[1:] if dim in varied] for info in inputs]
    leading = set() if may_be_empty else set(varied) - {dim for dims in inner for dim in dims}
    is_image = any(len(dims) > 1 for dims in inner)
    same: dict[str, str] = {}
    first: dict[tuple[int, ...], str] = {}
    for name, column in varied.items():
        other = first.setdefault(tuple(column), name)
        if other != name:
            same[name] = other

    # A batch has no step.
    stepped = set(varied) - leading or leading

    def dims(ample: bool, step: int = 1, equal: Mapping[str, str] | None = None, low: int = 1) -> Dims:
        found: Dims = {}
        for name, column in columns.items():
            if name not in varied:
                found[name] = column[0]
            elif equal and name in equal:
                found[name] = equal[name]
            else:
                most = _AMPLE_BATCH if name in leading else _AMPLE
                found[name] = [_range(column, step if name in stepped else 1, most if ample else 0, low)]
        return found

    step = math.gcd(_GRID, *(size for name in stepped for size in varied[name]))
    steps = [1] if step == 1 or any(0 in varied[name] for name in stepped) else [1, step]
    if is_image and step == _GRID:
        steps.reverse()
    tight: Dims = {}
    for name, column in columns.items():
        tight[name] = [(min(column), max(column))] if name in varied else column[0]
    tried = [dims(True, 1, same, 0)] if may_be_empty else []
    tried += [dims(True, step, same) for step in steps]
    tried += [dims(True, steps[0])] if same else []
    tried += [dims(False, steps[0], same), tight]
    return [item for place, item in enumerate(tried) if item not in tried[:place]]


def _range(column: Sequence[int], step: int, ample: int, low: int) -> tuple[int, ...]:
    high = max(power_above(max(column)), min(power_above(4 * max(column)), ample))
    return (step, high, step) if step > 1 else (min(low, *column), high)


def raised(dims: Dims, sizes: Mapping[str, int], part: int, parts: int) -> Dims:
    """Returns inferred ranges whose lower bounds are raised toward some sizes by `part` of `parts` steps.

    Args:
        dims: ranges that `inferred_dims` returned.
        sizes: sizes that all of the ranges contain.
        part: number of steps; 0 leaves the ranges as they are.
        parts: number of steps after which the ranges start at the sizes.
    """
    found: Dims = {}
    for name, given in dims.items():
        match given:
            case [(low, *rest)]:
                step = rest[1] if len(rest) > 1 else 1
                found[name] = [(low + -((low - sizes[name]) // step * part // parts) * step, *rest)]
            case _:
                found[name] = given
    return found


def corners(ranges: Mapping[str, Range]) -> list[dict[str, int]]:
    """Returns the smallest and the largest sizes of ranges."""
    return [{name: getattr(values, end) for name, values in ranges.items()} for end in ("low", "high")]
