"""`stepwell-form-views` on modules that are too large for a lit test."""

from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.passes.infra.state import CompileState
from stepwell.passes.kernel.form_views import FormViewsPass


def test_concatenations_deeper_than_the_stack():
    """Each concatenation reads the one before, as in a dense network of two thousand layers."""
    depth = 2000
    lines = ['%v0 = "stepwell.exp"(%x) : (tensor<1xf32>) -> tensor<1xf32>']
    for index in range(1, depth):
        lines += [
            f'%m{index} = "stepwell.exp"(%x) : (tensor<1xf32>) -> tensor<1xf32>',
            f'%v{index} = "stepwell.concat"(%v{index - 1}, %m{index}) {{axis = 0 : i64}} : '
            f"(tensor<{index}xf32>, tensor<1xf32>) -> tensor<{index + 1}xf32>",
        ]
    text = "\n".join(lines)
    function = f"(%x: tensor<1xf32>) -> tensor<{depth}xf32> {{ {text}\nreturn %v{depth - 1} : tensor<{depth}xf32> }}"
    with ir.Context() as context:
        load_dialects(context)
        module = ir.Module.parse(f"func.func @main{function}")
        FormViewsPass().run(module.operation, CompileState())
        left = str(module)
    assert "stepwell.concat" not in left
    assert left.count("tensor.insert_slice") == depth
