"""The choice of versions of kernels: those that save the most time of a program come first."""

from __future__ import annotations

import numpy as np
from stepwell.lowering.version_choice import KernelVersions, choose, slowdowns

_SUITS_ONE_HALF = np.array([[1.0, 1, 2, 2], [2.0, 2, 1, 1], [1.5, 1.5, 1.4, 1.4]])


def test_a_kernel_has_a_version_for_each_kind_of_sizes():
    (chosen,) = choose([KernelVersions(_SUITS_ONE_HALF, np.ones(4))])
    assert set(chosen) == {0, 1, 2}
    assert chosen[0] == 2  # suits all sizes best if it is the only one


def test_a_kernel_that_takes_little_time_has_one_version():
    large, small = choose([KernelVersions(_SUITS_ONE_HALF, np.full(4, share)) for share in (0.999, 0.001)])
    assert len(large) == 3
    assert small == [2]


def test_sizes_count_at_which_the_kernel_takes_time():
    shares = np.array([0.5, 0.5, 1e-4, 1e-4])
    assert choose([KernelVersions(_SUITS_ONE_HALF, shares)]) == [[0]]


def test_a_plan_that_suits_all_sizes_needs_no_other():
    assert choose([KernelVersions(np.array([[1.01, 1, 1.02], [1.0, 3, 3], [2.0, 1, 3]]), np.ones(3))]) == [[0]]


def test_the_number_of_versions_is_limited():
    (chosen,) = choose([KernelVersions(1 + 4.0 * ~np.eye(20, dtype=bool), np.ones(20))])
    assert len(chosen) == 8


def test_kernels_share_what_a_call_loses():
    """A slow call is more urgent, so kernels with the same loss at the same sizes all get their version."""
    chosen = choose([KernelVersions(_SUITS_ONE_HALF, np.full(4, 0.1)) for _ in range(10)])
    assert {len(item) for item in chosen} == {3}


def test_sizes_at_which_a_kernel_computes_nothing_do_not_count():
    costs = np.concatenate([np.zeros((3, 1)), _SUITS_ONE_HALF], axis=1)
    (chosen,) = choose([KernelVersions(costs, np.array([0.0, 1, 1, 1, 1]))])
    assert set(chosen) == {0, 1, 2}
    np.testing.assert_array_equal(slowdowns(costs)[:, :2], [[1, 1], [1, 2], [1, 1.5]])
