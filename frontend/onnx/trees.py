"""Ensembles of decision trees as one table of nodes, whichever way a model writes them down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import NodeError, UnsupportedError

MAX_DEPTH = 128
"""Deeper trees are not written out."""

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_OPPOSITE = {"BRANCH_GT": "BRANCH_LEQ", "BRANCH_GTE": "BRANCH_LT", "BRANCH_NEQ": "BRANCH_EQ"}
_TABLED = ("BRANCH_LT", "BRANCH_EQ")


@dataclass(frozen=True)
class Forest:
    """All trees. A leaf leads to itself, whatever it compares.

    Attributes:
        feature: by node, which column of the input it compares.
        split: by node, what it compares with: `x <= split`, or `x == split` where `equal` is true.
        equal: by node, which of the two.
        children: by node, where it leads when that is false, when it is true, and when x is not a number.
        roots: the node that each tree begins with.
        depth: how many steps lead from every root to a leaf.
        values: by node and target, what a leaf adds; not a number where it says nothing of a target.
    """

    feature: np.ndarray
    split: np.ndarray
    equal: np.ndarray
    children: np.ndarray
    roots: np.ndarray
    depth: int
    values: np.ndarray


def make_forest(
    modes: Sequence[str],
    feature: np.ndarray,
    split: np.ndarray,
    yes: np.ndarray,
    no: np.ndarray,
    missing: np.ndarray,
    roots: np.ndarray,
    values: np.ndarray,
) -> Forest:
    """A forest of nodes that compare in any way.

    Args:
        modes: by node, how it compares; "LEAF" of a leaf.
        feature: by node, which column of the input it compares.
        split: by node, what it compares with.
        yes: by node, where it leads when that is true.
        no: by node, where it leads when it is false.
        missing: by node, whether it takes what is not a number as true.
        roots: the node that each tree begins with.
        values: by node and target, what a leaf adds; not a number where it says nothing of a target.

    Raises:
        NodeError: a node leads out of the table, or round in circles.
        UnsupportedError: a node asks for membership in a set, or the trees are too deep to be written out.
    """
    count = len(modes)
    names = sorted(set(modes))
    codes = np.fromiter(map(dict(zip(names, range(len(names)), strict=True)).__getitem__, modes), np.int64, count)

    def are(*kinds: str) -> np.ndarray:
        return np.isin(codes, [code for code, name in enumerate(names) if name in kinds])

    leaves = are("LEAF")
    unknown = set(names) - {*_MODES, "LEAF"}
    if unknown:
        raise NodeError(f"has nodes of the mode '{min(unknown)}', which does not exist")
    if "BRANCH_MEMBER" in names:
        raise UnsupportedError("asks for membership in sets, which is not supported")
    own = np.arange(count)
    yes, no = (np.where(leaves, own, branch) for branch in (yes, no))
    if not all(len(items) == count for items in (feature, split, yes, no, missing)):
        raise NodeError("has lists of nodes of different lengths")
    if min(yes.min(), no.min(), roots.min()) < 0 or max(yes.max(), no.max(), roots.max()) >= count:
        raise NodeError("has a node that leads to one that does not exist")
    # Comparisons with what is not a number are false, but for the one that asks for a difference.
    lost = np.where(missing | are("BRANCH_NEQ"), yes, no)
    turned = are(*_OPPOSITE)
    yes, no = np.where(turned, no, yes), np.where(turned, yes, no)
    less, equal = (are(*(name for name in names if _OPPOSITE.get(name, name) == kind)) for kind in _TABLED)
    # x < split is x <= the next number below it.
    below = np.nextafter(split, -np.inf, dtype=split.dtype)
    split = np.where(less, below, split)
    depth = _depth(yes, no, lost, leaves, roots)
    children = np.stack([no, yes, lost], axis=1)
    return Forest(feature, split, equal, children, roots, depth, values)


def _depth(yes: np.ndarray, no: np.ndarray, lost: np.ndarray, leaves: np.ndarray, roots: np.ndarray) -> int:
    """How many steps it takes at most to a leaf."""
    frontier = np.unique(roots)
    for depth in range(len(leaves) + 1):
        frontier = frontier[~leaves[frontier]]
        if not len(frontier):
            if depth > MAX_DEPTH:
                raise UnsupportedError(f"has trees {depth} nodes deep; up to {MAX_DEPTH} are supported")
            return depth
        frontier = np.unique(np.concatenate([yes[frontier], no[frontier], lost[frontier]]))
    raise NodeError("has nodes that lead round in circles")
