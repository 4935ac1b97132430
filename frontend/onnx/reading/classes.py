"""String class labels: classifiers are compiled for numbered classes, whose names the host looks up."""

from __future__ import annotations

import onnx
from onnx import helper

from .names import node_name, normal_domain

_ML = "ai.onnx.ml"
_STRINGS = "classlabels_strings"
_NUMBERS = {
    "LinearClassifier": "classlabels_ints",
    "SVMClassifier": "classlabels_ints",
    "TreeEnsembleClassifier": "classlabels_int64s",
}


def with_numbered_classes(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Replaces class names by numbers; returns the model itself if it has no named classes.

    label, scores = Classifier<classlabels_strings = [a, b]>(x)
      --> number, scores = Classifier<classlabels_ints = [0, 1]>(x)
          label = CategoryMapper<cats_int64s = [0, 1], cats_strings = [a, b]>(number)
    """
    found = [index for index, node in enumerate(proto.graph.node) if _names(node)]
    if not found:
        return proto
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    for index in reversed(found):
        mapper = _numbered(changed.graph.node[index], index)
        if mapper is not None:
            changed.graph.node.insert(index + 1, mapper)
    return changed


def _names(node: onnx.NodeProto) -> list[bytes]:
    """The names of a classifier's classes; empty if it has numeric labels."""
    if normal_domain(node.domain) != _ML or node.op_type not in _NUMBERS:
        return []
    given = {attribute.name: attribute for attribute in node.attribute}
    numbers = given.get(_NUMBERS[node.op_type])
    return list(given[_STRINGS].strings) if _STRINGS in given and not (numbers and numbers.ints) else []


def _numbered(node: onnx.NodeProto, index: int) -> onnx.NodeProto | None:
    """Makes a classifier return numbers; returns the node that maps them to names, or None if the label is not used."""
    names, numbers = _names(node), _NUMBERS[node.op_type]
    kept = [attribute for attribute in node.attribute if attribute.name not in (_STRINGS, numbers)]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(numbers, range(len(names)))])
    if not node.output or not node.output[0]:
        return None
    label, number = node.output[0], f"{node.output[0]}.number"
    name = f"{node_name(node, index)}.classes"
    node.output[0] = number
    places = {"cats_int64s": range(len(names)), "cats_strings": names}
    return helper.make_node("CategoryMapper", [number], [label], name=name, domain=_ML, **places)
