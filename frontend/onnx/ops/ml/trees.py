"""Ensembles of decision trees as one table of nodes, independent of the operator that describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....errors import NodeError, UnsupportedError

MAX_DEPTH = 128
"""Maximum depth of trees that are unrolled."""

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
_OPPOSITE = {"BRANCH_GT": "BRANCH_LEQ", "BRANCH_GTE": "BRANCH_LT", "BRANCH_NEQ": "BRANCH_EQ"}
_TABLED = ("BRANCH_LT", "BRANCH_EQ")


@dataclass(frozen=True)
class Forest:
    """All trees of an ensemble. A leaf leads to itself for any comparison.

    Attributes:
        feature: by node, the column of the input that it compares.
        split: by node, the threshold: the comparison is `x <= split`, or `x == split` if `equal` is true.
        equal: by node, whether the comparison is for equality.
        children: by node, the next node if the comparison is false, if it is true, and if x is NaN.
        roots: the first node of each tree.
        depth: maximum number of steps from a root to a leaf.
        values: by node and target, the contribution of a leaf; NaN if it has none to that target.
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
    """Builds a forest from nodes with any supported comparison.

    Args:
        modes: by node, the comparison; "LEAF" for a leaf.
        feature: by node, the column of the input that it compares.
        split: by node, the threshold.
        yes: by node, the next node if the comparison is true.
        no: by node, the next node if it is false.
        missing: by node, whether NaN counts as true.
        roots: the first node of each tree.
        values: by node and target, the contribution of a leaf; NaN if it has none to that target.

    Raises:
        NodeError: a node leads out of the table, or nodes form a cycle.
        UnsupportedError: a node tests membership in a set, or the trees are too deep to be unrolled.
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
        raise UnsupportedError("tests membership in sets, which is not supported")
    own = np.arange(count)
    yes, no = (np.where(leaves, own, branch) for branch in (yes, no))
    if not all(len(items) == count for items in (feature, split, yes, no, missing)):
        raise NodeError("has lists of nodes of different lengths")
    if min(yes.min(), no.min(), roots.min()) < 0 or max(yes.max(), no.max(), roots.max()) >= count:
        raise NodeError("has a node that leads to one that does not exist")
    # Comparisons with NaN are false, except for inequality.
    lost = np.where(missing | are("BRANCH_NEQ"), yes, no)
    swapped = are(*_OPPOSITE)
    yes, no = np.where(swapped, no, yes), np.where(swapped, yes, no)
    less, equal = (are(*(name for name in names if _OPPOSITE.get(name, name) == kind)) for kind in _TABLED)
    # x < split is equivalent to x <= the next number below split.
    below = np.nextafter(split, -np.inf, dtype=split.dtype)
    split = np.where(less, below, split)
    depth = _depth(yes, no, lost, leaves, roots)
    children = np.stack([no, yes, lost], axis=1)
    return Forest(feature, split, equal, children, roots, depth, values)


def _depth(yes: np.ndarray, no: np.ndarray, lost: np.ndarray, leaves: np.ndarray, roots: np.ndarray) -> int:
    """The maximum number of steps to a leaf."""
    frontier = np.unique(roots)
    for depth in range(len(leaves) + 1):
        frontier = frontier[~leaves[frontier]]
        if not len(frontier):
            if depth > MAX_DEPTH:
                raise UnsupportedError(f"has trees {depth} nodes deep; up to {MAX_DEPTH} are supported")
            return depth
        frontier = np.unique(np.concatenate([yes[frontier], no[frontier], lost[frontier]]))
    raise NodeError("has nodes that form a cycle")
