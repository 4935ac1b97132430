"""Einsum, compared with ONNX Runtime and numpy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir
from onnx import helper
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.errors import ModelError
from stepwell.frontend.onnx.importer import import_model

from .conftest import make_model

F32 = np.float32
EXTENTS = {"a": 2, "b": 3, "c": 4, "i": 2, "j": 3}


def computed(equation, arrays):
    """Returns the interpreter's result of the imported equation."""
    feeds = {f"x{index}": array for index, array in enumerate(arrays)}
    model = make_model([helper.make_node("Einsum", list(feeds), ["y"], equation=equation)], feeds, ["y"], {}, 12)
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    imported = import_model(model, ir.Context(), {name: array.shape for name, array in feeds.items()})
    return evaluate(imported.module, "main", list(arrays), imported.parameters)[0]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ii->...i", [(2, 3, 4, 4)]),
        ("ii", [(4, 4)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("...ij,jk", [(2, 3, 4), (4, 2)]),
        ("i...,j...->...ij", [(3, 2), (4, 2)]),
        ("bij,bjk,bkl->bil", [(2, 3, 4), (2, 4, 5), (2, 5, 3)]),
        ("ij,ij->ij", [(1, 4), (3, 4)]),
        ("ij,kj->", [(3, 4), (2, 4)]),
        ("iji,jj->i", [(3, 4, 3), (4, 4)]),
        (" a b , c -> c b a ", [(2, 3), (4,)]),
    ],
)
def test_equations(check, rng, equation, shapes):
    arrays = [rng.normal(size=shape).astype(F32) for shape in shapes]
    np.testing.assert_allclose(computed(equation, arrays), np.einsum(equation, *arrays), rtol=1e-5, atol=1e-6)


def test_as_onnx_runtime_does(check, rng):
    arrays = [rng.normal(size=shape).astype(F32) for shape in ((2, 3, 4), (2, 4, 5))]
    check("Einsum", 12, arrays, equation="...ij,...jk->...ik")
    check("Einsum", 12, [arrays[0][0, :, :3]], equation="ii->i", dynamic=False)


def test_elements_outside_a_diagonal_are_ignored():
    array = np.full((3, 3), np.inf, F32)
    np.fill_diagonal(array, 1)
    np.testing.assert_array_equal(computed("ii->i", [array]), np.ones(3, F32))
    np.testing.assert_array_equal(computed("ii", [np.arange(9).reshape(3, 3)]), 12)


@st.composite
def equations(draw):
    """Draws up to three terms of at most three labels, some with a one-dimensional ellipsis, and an output."""
    terms = draw(st.lists(st.text("abcij", min_size=1, max_size=3), min_size=1, max_size=3))
    dots = [draw(st.booleans()) for _ in terms]
    labels = sorted(set("".join(terms)))
    output = "".join(draw(st.permutations(draw(st.lists(st.sampled_from(labels), unique=True)))))
    left = ",".join("..." * dotted + term for term, dotted in zip(terms, dots, strict=True))
    shapes = [
        (*[draw(st.sampled_from((1, 3)))] * dotted, *(EXTENTS[label] for label in term))
        for term, dotted in zip(terms, dots, strict=True)
    ]
    return f"{left}->{'...' * any(dots)}{output}", shapes


@settings(max_examples=60, deadline=None)
@given(equations(), st.integers(0, 2**32 - 1))
def test_any_equation(case, seed):
    equation, shapes = case
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=shape) for shape in shapes]
    np.testing.assert_allclose(computed(equation, arrays), np.einsum(equation, *arrays), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij,jk->ik", "has 2 terms, but takes 1 tensor"),
        ("ijk->i", r"does not match the ranks \[2\]"),
        ("ij->ik", "returns a label twice, or one that no input has"),
        ("ij->ii", "returns a label twice, or one that no input has"),
    ],
)
def test_negative_equations(equation, message):
    with pytest.raises(ModelError, match=message):
        computed(equation, [np.zeros((3, 4), F32)])
