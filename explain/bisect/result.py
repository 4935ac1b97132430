"""What a bisection tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from .comparison import Difference, worst


@dataclass
class Fault:
    """What is wrong, as narrowly as it is known.

    Attributes:
        level: where: "import" (an op's import or reference), "graph" (a pass on ops), "kernel" (a kernel's code),
            "program" (what makes a program of kernels).
        difference: how wrong the values are.
        value: which value is wrong: the name of one in the model, or of an output.
        nodes: the model's nodes that it comes from.
        op_type: the operator of the first of them, or the op of ours.
        kernel: the kernel.
        pass_name: the pass.
        pattern: the rewrite in it, or the rule.
        note: what else there is to say.
        before: the IR before the pass, for the reproducer.
        after: the IR after it.
        inputs: what to run that IR on.
        expected: what should come out.
        parameters: what it reads beside.
        reproducer: the folder where all of this lies.
    """

    level: str
    difference: Difference
    value: str = ""
    nodes: tuple[str, ...] = ()
    op_type: str = ""
    kernel: str = ""
    pass_name: str = ""
    pattern: str = ""
    note: str = ""
    before: ir.Operation | None = None
    after: ir.Operation | None = None
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    expected: dict[str, np.ndarray] = field(default_factory=dict)
    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    reproducer: str = ""

    def record(self) -> dict[str, Any]:
        """What of it JSON can say."""
        names = ("level", "value", "nodes", "op_type", "kernel", "pass_name", "pattern", "note", "reproducer")
        fields = {name.replace("pass_name", "pass"): getattr(self, name) for name in names}
        return {**fields, "nodes": list(self.nodes), "difference": self.difference.record()}


@dataclass
class Level:
    """One level that was looked at.

    Attributes:
        name: as of `Fault.level`.
        checked: how many values, passes or kernels were compared.
        largest: the largest difference among them; the fault's, if there is one.
        place: its kernel, pass or node.
        note: why it was not looked at, where it was not.
        not_finite: the node of the model that, by the reference too, first makes infinities or NaN of finite values,
            where the outputs have such; at the level "import" alone.
    """

    name: str
    checked: int = 0
    largest: Difference = field(default_factory=Difference)
    place: str = ""
    note: str = ""
    not_finite: str = ""

    def see(self, difference: Difference, place: str) -> None:
        """Counts a comparison."""
        self.checked += 1
        if self.checked == 1 or worst((self.largest, difference)) is difference:
            self.largest, self.place = difference, place

    def blame(self, fault: Fault) -> None:
        """Puts a fault in the place of the largest difference."""
        parts = (fault.kernel, fault.pass_name, f"({', '.join(fault.nodes)})" if fault.nodes else "")
        self.largest, self.place = fault.difference, " ".join(filter(None, parts)) or self.place

    def add(self, other: Level) -> None:
        """Adds the comparisons of the same level with other inputs."""
        self.checked += other.checked
        if worst((self.largest, other.largest)) is other.largest:
            self.largest, self.place = other.largest, other.place
        self.note, self.not_finite = self.note or other.note, self.not_finite or other.not_finite

    def record(self) -> dict[str, Any]:
        """Its fields, for JSON."""
        largest = self.largest.record()
        return {
            "level": self.name,
            "checked": self.checked,
            "error": largest["error"],
            "relative": largest["relative"],
            "place": self.place,
            "note": self.note,
            "not_finite": self.not_finite,
        }


@dataclass
class Bisection:
    """What was found.

    Attributes:
        fault: what is wrong; None where nothing is.
        levels: what was compared, in order.
    """

    fault: Fault | None = None
    levels: list[Level] = field(default_factory=list)

    def add(self, other: Bisection) -> None:
        """Adds what was found with other inputs: equal levels of equal order become one."""
        for index, level in enumerate(other.levels):
            if index < len(self.levels) and self.levels[index].name == level.name:
                self.levels[index].add(level)
            else:
                self.levels.append(level)
        self.fault = self.fault or other.fault
