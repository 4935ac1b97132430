"""The results of a bisection."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from .comparison import Difference, worst


@dataclass
class Fault:
    """The cause of wrong numbers, as narrowly as it is known.

    Attributes:
        level: the level at fault: "import" (an op's import or reference), "graph" (a pass on ops), "kernel" (a kernel's
            code), "program" (the assembly of kernels to a program).
        difference: the difference in values.
        value: name of the wrong value in the model, or of a wrong output.
        nodes: the model's nodes that it comes from.
        op_type: the operator of the first of them, or our op.
        kernel: the kernel.
        pass_name: the pass.
        pattern: the rewrite in it, or the rule.
        note: further findings.
        before: the IR before the pass, for the reproducer.
        after: the IR after it.
        inputs: inputs of that IR.
        expected: its expected outputs.
        parameters: its parameters.
        reproducer: the folder with all of these.
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
        """The fields that JSON can hold."""
        names = ("level", "value", "nodes", "op_type", "kernel", "pass_name", "pattern", "note", "reproducer")
        fields = {name.replace("pass_name", "pass"): getattr(self, name) for name in names}
        return {**fields, "nodes": list(self.nodes), "difference": self.difference.record()}


@dataclass
class Level:
    """The comparisons of one level.

    Attributes:
        name: as in `Fault.level`.
        checked: number of values, passes or kernels compared.
        largest: the largest difference among them; the fault's, if there is one.
        place: its kernel, pass or node.
        note: the reason if the level was not compared.
        not_finite: the node of the model that, also in the reference, first computes infinities or NaN from finite
            values, if the outputs have such; at the level "import" only.
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
        """Replaces the largest difference by a fault's."""
        parts = (fault.kernel, fault.pass_name, f"({', '.join(fault.nodes)})" if fault.nodes else "")
        self.largest, self.place = fault.difference, " ".join(filter(None, parts)) or self.place

    def add(self, other: Level) -> None:
        """Adds the comparisons of the same level with other inputs."""
        self.checked += other.checked
        if worst((self.largest, other.largest)) is other.largest:
            self.largest, self.place = other.largest, other.place
        self.note, self.not_finite = self.note or other.note, self.not_finite or other.not_finite

    def record(self) -> dict[str, Any]:
        """The fields for JSON."""
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
    """The findings of a bisection.

    Attributes:
        fault: the fault; None if there is none.
        levels: the compared levels, in order.
    """

    fault: Fault | None = None
    levels: list[Level] = field(default_factory=list)

    def add(self, other: Bisection) -> None:
        """Adds the findings with other inputs; equal levels at the same position are merged."""
        for index, level in enumerate(other.levels):
            if index < len(self.levels) and self.levels[index].name == level.name:
                self.levels[index].add(level)
            else:
                self.levels.append(level)
        self.fault = self.fault or other.fault
