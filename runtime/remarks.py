"""Optimisation remarks: transformations of the model's nodes by passes, transformations not made, and findings.

The fields are those of LLVM's remarks, and `to_yaml` writes the YAML of `-pass-remarks-output`. A location is the names
of the model's nodes, so that remarks can be read without MLIR.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PASSED, MISSED, ANALYSIS = "passed", "missed", "analysis"
KINDS = (PASSED, MISSED, ANALYSIS)
"""The kinds of remarks: a transformation was made, was considered but not made, or something was found out."""

FUSE = "Fuse"
"""Rule of a remark that an op was not fused into the kernel of another one, which is its argument `READS`."""

VERSIONS = "Versions"
"""Rule of a remark on the versions of a kernel for different sizes."""

INTEGER_PRODUCT = "MultiplyDequantized"
"""Rule of a remark that a product of quantised values is not computed on their integers."""

NOT_QUANTIZED = "that was not dequantised"
"""End of the message of such a remark if one operand is not quantised at all."""

READS, INTO, HOW = "reads", "into", "how"
"""Arguments: the node whose kernel an op reads; the nodes that took over a node's work; how an op was removed."""

REWRITTEN, ABSORBED, FOLDED, SHARED, UNREAD = "rewritten", "absorbed", "folded", "shared", "unread"
"""Values of `HOW`: replaced by a pattern rooted at the op, or rooted at its only reader; computed at compile time;
replaced by an equal op; erased because nothing reads it."""

RemarkValue = str | int | float | tuple[str, ...]
_YAML_TAGS = {PASSED: "!Passed", MISSED: "!Missed", ANALYSIS: "!Analysis"}


@dataclass(frozen=True)
class Remark:
    """A statement of a pass about some nodes of the model.

    Attributes:
        kind: one of `KINDS`.
        pass_name: the pass, such as "stepwell-fold-batch-norm".
        rule: the pattern, such as "FactorIntoConv", or action, such as "Fuse", that was applied or considered.
        nodes: the names of the model's nodes; empty for ops that come from no node.
        message: the transformation or finding; for a missed remark, the reason.
        arguments: further facts, by name.
    """

    kind: str
    pass_name: str
    rule: str
    nodes: tuple[str, ...]
    message: str
    arguments: tuple[tuple[str, RemarkValue], ...] = ()

    def argument(self, name: str) -> RemarkValue:
        """Returns an argument by name; () if there is none."""
        return dict(self.arguments).get(name, ())

    def names(self, name: str) -> tuple[str, ...]:
        """Returns an argument that is a list of names; () if there is none."""
        found = self.argument(name)
        return found if isinstance(found, tuple) else (str(found),)

    def __str__(self) -> str:
        return f"{self.kind}: {self.pass_name}: {self.rule}: {', '.join(self.nodes)}: {self.message}"

    def record(self) -> list[Any]:
        """Returns the remark as a list for JSON, which `read` takes."""
        return [self.kind, self.pass_name, self.rule, self.nodes, self.message, dict(self.arguments)]

    def described(self) -> dict[str, Any]:
        """Returns the remark as the report's record has it."""
        return {
            "kind": self.kind,
            "pass": self.pass_name,
            "rule": self.rule,
            "nodes": list(self.nodes),
            "message": self.message,
            "arguments": {name: list(value) if isinstance(value, tuple) else value for name, value in self.arguments},
        }

    @staticmethod
    def read(record: Sequence[Any]) -> Remark:
        """Reads the list that JSON made of a remark.

        Raises:
            ValueError, TypeError, AttributeError: it is not the record of a remark.
        """
        kind, pass_name, rule, nodes, message, arguments = record
        if kind not in KINDS:
            raise ValueError(f"{kind!r} is not a kind of remarks")
        return Remark(kind, str(pass_name), str(rule), _names(nodes), str(message), _arguments(arguments))


def _names(names: Sequence[Any]) -> tuple[str, ...]:
    if not isinstance(names, list):
        raise TypeError(f"{names!r} is not a list of names")
    return tuple(map(str, names))


def _arguments(record: Mapping[str, Any]) -> tuple[tuple[str, RemarkValue], ...]:
    return tuple((str(name), _names(value) if isinstance(value, list) else value) for name, value in record.items())


def to_yaml(remarks: Iterable[Remark]) -> str:
    """Returns remarks as the YAML documents of LLVM's `-pass-remarks-output`, which `opt-viewer` and others read.

    `Function` is the first node of the model, the other nodes are the argument `Nodes`.
    """
    return "".join(map(_document, remarks))


def _document(remark: Remark) -> str:
    arguments = [*(("Nodes", remark.nodes) for _ in remark.nodes[1:2]), *remark.arguments, ("String", remark.message)]
    lines = [
        f"--- {_YAML_TAGS[remark.kind]}",
        f"Pass:            {_scalar(remark.pass_name)}",
        f"Name:            {_scalar(remark.rule)}",
        f"Function:        {_scalar(remark.nodes[0] if remark.nodes else '')}",
        "Args:",
        *(f"  - {name + ':':<16} {_scalar(_text(value))}" for name, value in arguments),
        "...",
    ]
    return "\n".join(lines) + "\n"


def _text(value: RemarkValue) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _scalar(text: str) -> str:
    """Returns text as a YAML scalar in double quotes, whose escapes are those of JSON."""
    return json.dumps(text)
