"""Choice of the versions of all kernels of a program: those that save the most time over all sizes of a range."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Maximum number of versions of a kernel.
_MOST = 8

# Least gain that justifies another version: the decrease of the mean cube of the slowdown of calls. 0.003 is about a
# thousandth of the time; a version takes as long to compile as another kernel.
_GAIN = 0.003

# Ratio to the cost of the best plan up to which a plan counts as equally fast.
_NEAR = 1.02

# Exponent of the slowdown of a call: a few slow sizes count more than many slightly slower ones.
_POWER = 3


@dataclass(frozen=True)
class KernelVersions:
    """The plans that versions of a kernel may have.

    Attributes:
        costs: cost of each plan at each size [plans, sizes].
        shares: fraction of the time of a call that the kernel takes at each size, with the best plan [sizes].
    """

    costs: np.ndarray
    shares: np.ndarray


def slowdowns(costs: np.ndarray) -> np.ndarray:
    """Returns the costs of plans [plans, sizes] relative to the best plan of each size; 1 where that costs nothing."""
    least = costs.min(axis=0)
    return np.divide(costs, least, out=np.ones(costs.shape), where=least > 0)


def choose(kernels: Sequence[KernelVersions]) -> list[list[int]]:
    """Returns the numbers of the chosen plans of each kernel, at least one.

    Every kernel begins with the plan that suits all sizes best. Then the plan that makes calls faster than any other is
    added to its kernel, until none is worth a version.
    """
    states = [_State(kernel) for kernel in kernels]
    slowdown = np.add.reduce([state.losses() for state in states]) + 1.0
    # Gains only decrease as plans are added: a kernel's last known gain is a bound, and most need no update.
    queue = [(-np.inf, number) for number in range(len(states))]
    while queue:
        _, number = heapq.heappop(queue)
        state = states[number]
        gain, plan = state.best(slowdown)
        if gain < _GAIN or len(state.chosen) == _MOST:
            continue
        if queue and gain < -queue[0][0]:
            heapq.heappush(queue, (-gain, number))
            continue
        slowdown = slowdown - state.losses()
        state.add(plan)
        slowdown = slowdown + state.losses()
        heapq.heappush(queue, (-gain, number))
    return [state.chosen for state in states]


class _State:
    """The plans of a kernel that are chosen so far."""

    def __init__(self, kernel: KernelVersions) -> None:
        self._shares = kernel.shares
        self._ratios = np.maximum(slowdowns(kernel.costs), _NEAR) / _NEAR
        first = int((self._ratios**_POWER @ self._shares).argmin())
        self.chosen, self._least = [first], self._ratios[first]

    def losses(self) -> np.ndarray:
        """Returns the time that is lost at each size, as a fraction of a call."""
        return self._shares * (self._least - 1)

    def best(self, slowdown: np.ndarray) -> tuple[float, int]:
        """Returns the greatest gain of another plan, at a slowdown of calls at each size, and the plan."""
        others = slowdown - self.losses()
        after = (others + self._shares * (np.minimum(self._ratios, self._least) - 1)) ** _POWER
        means = after.mean(axis=1)
        plan = int(means.argmin())
        return float((slowdown**_POWER).mean() - means[plan]), plan

    def add(self, plan: int) -> None:
        """Adds a plan."""
        self.chosen.append(plan)
        self._least = np.minimum(self._least, self._ratios[plan])
