"""`torch.compile(model, backend="stepwell")`: results, freezing, sizes, gradients, ops of torch, and the account."""

import copy
import warnings

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch import nn  # noqa: E402

PLAIN = {"cache": False}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x, scale):
        self.total.add_(x.sum(0))
        return self.last(self.drop(nn.functional.gelu(self.first(x)))).transpose(0, 1) * scale


def same(made, wanted):
    torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-5)
    assert made.stride() == wanted.stride()


def compiled(model, **options):
    return torch.compile(model, backend="stepwell", options={**PLAIN, **options})


def test_the_entry_point():
    assert "stepwell" in torch._dynamo.list_backends()


@pytest.mark.few(1)
@pytest.mark.parametrize("freezing", [False, True])
def test_inference_at_several_sizes(freezing):
    model = Perceptron().eval()
    other = copy.deepcopy(model)
    run = compiled(model, freezing=freezing)
    with torch.no_grad():
        for rows, scale in ((3, 3), (7, 5), (9, 6), (11, 6)):
            x = torch.randn(rows, 4)
            same(run(x, scale), other(x, scale))
            same(model.total, other.total)
    report = stepwell.torch_report()
    # The number is a constant of the first compile, and varies in the second, as the rows do.
    assert [graph.compile_id for graph in report.graphs] == ["0/0", "0/1"]
    assert not any(graph.on_torch for graph in report.graphs)
    assert "size mismatch at index 0. expected 3, actual 7" in report.recompiles[-1].reason
    (piece,) = report.graphs[1].pieces.values()
    (program,) = piece.programs
    assert program.bounds is not None


def test_marked_sizes_are_compiled_once():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
    run = torch.compile(model, backend="stepwell", options=PLAIN)
    with torch.no_grad():
        for rows in (5, 9, 2, 31):
            x = torch.randn(rows, 4)
            torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
            same(run(x), model(x))
    (graph,) = stepwell.torch_report().graphs
    (piece,) = graph.pieces.values()
    assert {program.bounds is not None for program in piece.programs} == {True}


@pytest.mark.sweep
def test_a_frozen_weight_that_changes():
    model = Perceptron().eval()
    run = compiled(model, freezing=True)
    x = torch.randn(3, 4)
    with torch.no_grad():
        same(run(x, 2), model(x, 2))
        model.first.weight.mul_(2)
        with pytest.warns(stepwell.StepwellWarning, match="a frozen weight has changed"):
            same(run(x, 2), model(x, 2))
        model.last.bias.data = torch.ones(3)
        same(run(x, 2), model(x, 2))


def test_a_frozen_weight_that_is_replaced():
    model = nn.Linear(4, 3)
    run = compiled(model, freezing=True)
    x = torch.randn(2, 4)
    with torch.no_grad():
        same(run(x), model(x))
        model.weight.data = torch.ones(3, 4)
        with pytest.warns(stepwell.StepwellWarning, match="a frozen weight has changed"):
            same(run(x), model(x))


def test_gradients():
    model = Perceptron().eval()
    other = copy.deepcopy(model)
    run = compiled(model)
    x, y = (torch.randn(5, 4, generator=torch.Generator().manual_seed(1), requires_grad=True) for _ in range(2))
    made, wanted = run(x, 2), other(y, 2)
    same(made, wanted)
    made.square().sum().backward()
    wanted.square().sum().backward()
    same(x.grad, y.grad)
    for own, theirs in zip(model.parameters(), other.parameters(), strict=True):
        same(own.grad, theirs.grad)
    assert [graph.kind for graph in stepwell.torch_report().graphs] == ["forward", "backward"]


class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        y = self.first(x).relu()
        return self.last(y) * torch.linalg.eigvals(y.T @ y).abs().max()


def test_ops_without_code_run_in_torch():
    model = Partly().eval()
    run = compiled(model)
    x = torch.randn(5, 4)
    with torch.no_grad():
        with pytest.warns(stepwell.FallbackWarning, match=r"1 op run.* aten\.linalg_eig"):
            made = run(x)
        same(made, model(x))
    (graph,) = stepwell.torch_report().graphs
    assert [item.op_type for item in graph.on_torch] == ["aten.linalg_eig.default"]
    assert len(graph.pieces) == 2
    torch._dynamo.reset()
    run = compiled(model, fallback="error")
    with torch.no_grad(), pytest.raises(Exception, match="none may run in torch"):
        run(x)


def test_dropout_in_training_mode():
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    run = compiled(model, fallback="quiet")
    made = run(torch.randn(64, 4))
    assert 0.3 < (made == 0).float().mean().item() < 0.7
    made.sum().backward()


def test_strides_of_inputs_and_outputs():
    model = nn.Conv2d(3, 8, 3, padding=1).eval().to(memory_format=torch.channels_last)
    run = compiled(model)
    with torch.no_grad():
        x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
        same(run(x), model(x))
        y = torch.randn(2, 3, 6, 12)[..., ::2]
        same(run(y), model(y))


@pytest.mark.sweep
def test_composites_stay_whole():
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    run = compiled(attention)
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        torch.testing.assert_close(run(x, x, x), attention(x, x, x), rtol=1e-4, atol=1e-5)
    lstm = nn.LSTM(8, 16, 2, batch_first=True).eval()
    run = compiled(lstm)
    x = torch.randn(2, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(run(x), lstm(x), rtol=1e-4, atol=1e-5)
    report = stepwell.torch_report()
    assert len(report.graphs) == 2 and not any(graph.on_torch for graph in report.graphs)
    assert not report.graph_breaks


def test_graph_breaks_are_reported():
    def function(x):
        y = x.sin()
        print(end="")
        return y.cos()

    run = torch.compile(function, backend="stepwell", options=PLAIN)
    x = torch.randn(4)
    same(run(x), function(x))
    report = stepwell.torch_report()
    assert len(report.graphs) == 2
    assert sum(report.graph_breaks.values()) >= 1
    assert "graph break" in str(report)


def test_outputs_that_are_inputs_and_numbers():
    def function(x, y):
        return x, y + 1, x.shape[0], None

    run = torch.compile(function, backend="stepwell", options=PLAIN, dynamic=True)
    for rows in (3, 5):
        x, y = torch.randn(rows, 2), torch.randn(rows, 2)
        made = run(x, y)
        assert made[0] is x
        same(made[1], y + 1)
        assert made[2:] == (rows, None)


def _part_of_it(x, noise):
    last = x.chunk(3)[2]
    return (last + noise(last)).reshape(last.shape[0], 1) * 2


def _twice(x, noise):
    both = torch.cat([x, x])
    return (both + noise(both)).view(2, x.shape[0]) * 2


@pytest.mark.parametrize("function", [_part_of_it, _twice])
def test_sizes_of_a_piece_that_has_no_input_of_the_symbol(function):
    """The piece after the op in torch has an input of `s - 2 * ((s + 2) // 3)` or `2 * s` rows, none of s rows."""
    options = {**PLAIN, "fallback": "quiet"}
    run = torch.compile(lambda x: function(x, torch.rand_like), backend="stepwell", options=options, dynamic=True)
    for rows in (7, 10):
        made = run(torch.zeros(rows))
        assert made.shape == function(torch.zeros(rows), torch.zeros_like).shape
        assert made.min() >= 0 and made.max() < 2
    assert {item.op_type for graph in stepwell.torch_report().graphs for item in graph.on_torch} == {
        "aten.rand_like.default"
    }


def test_a_whole_program_by_the_default_backend():
    torch.compiler.set_default_backend("stepwell")
    try:
        model = nn.Linear(4, 3)
        x = torch.randn(2, 4)
        with torch.no_grad():
            same(torch.compile(model)(x), model(x))
    finally:
        torch.compiler.set_default_backend(None)
    assert len(stepwell.torch_report().graphs) == 1


def test_modes_and_options():
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    with torch.no_grad(), pytest.warns(stepwell.StepwellWarning, match="mode='max-autotune' has no meaning"):
        same(torch.compile(model, backend="stepwell", mode="max-autotune")(x), model(x))
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(Exception, match="there is no option 'winograde'; did you mean 'winograd'"):
        torch.compile(model, backend="stepwell", options={"winograde": True})(x)


def test_no_warning_if_all_is_compiled():
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", stepwell.StepwellWarning)
        same(compiled(model)(x), model(x))


def test_conversions_and_divisions_of_decomposed_ops():
    def function(x):
        return torch.ops.prims.convert_element_type(x, torch.float64), torch.ops.aten.true_divide(x, 3)

    x = torch.arange(4)
    for own, theirs in zip(compiled(function)(x), function(x), strict=True):
        same(own, theirs)
    assert not any(graph.on_torch for graph in stepwell.torch_report().graphs)


def test_copies_in_the_layout_of_their_sources():
    def function(x):
        return x.t().index_fill(0, torch.tensor([1]), 7.0) * 2, x.t().index_fill(1, torch.tensor([0]), 2.0)

    x = torch.randn(3, 4)
    for own, theirs in zip(compiled(function, fallback="error")(x), function(x), strict=True):
        same(own, theirs)


def test_options_of_quantized_graphs_do_not_matter():
    quantized = torch._higher_order_ops.InvokeQuant(codegen_low_precision=True)

    def function(x, y):
        made, more = quantized(lambda x, y: (x.abs() * y, x + 1), x, y, scheme="nf4")
        return made.sin() + more

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    with torch.no_grad():
        same(compiled(function, fallback="error")(x, y), function(x, y))


def test_derivatives_and_batches_inside_a_graph_without_gradients():
    weight = torch.randn(3, 4)

    def function(x):
        slopes = torch.func.vmap(torch.func.grad(lambda row: nn.functional.linear(row, weight).tanh().sum()))(x)
        return slopes, torch.func.jacrev(lambda value: nn.functional.silu(value @ weight.T).sum(0))(x)

    x = torch.randn(5, 4)
    with torch.no_grad():
        for made, wanted in zip(compiled(function)(x), function(x), strict=True):
            same(made, wanted)


def test_random_numbers_are_those_of_torch():
    def function(x):
        noise = torch.rand_like(x)
        chosen = torch.multinomial(x.abs().sum(0), 2)
        return noise + nn.functional.dropout(x, 0.5), chosen, torch.randn(3), torch.randperm(5) * chosen[0]

    x, results = torch.randn(4, 6), []
    for run in (compiled(function, fallback="quiet"), function):
        torch.manual_seed(1)
        results.append(run(x))
    for made, wanted in zip(*results, strict=True):
        same(made, wanted)


def test_arguments_are_updated_after_they_are_read():
    def function(x, matrix):
        first = torch.linalg.eigvals(matrix).abs().sum() * x
        before = x * 1
        x.add_(1)
        return torch.linalg.eigvals(matrix * first.sum()).abs() * before

    x, matrix = torch.randn(4), torch.randn(4, 4)
    other = x.clone()
    with torch.no_grad():
        made, wanted = compiled(function, fallback="quiet")(x, matrix), function(other, matrix)
    same(made, wanted)
    same(x, other)


def test_an_op_of_torch_whose_element_types_differ_from_its_rule():
    class Normalized(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.last = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.last(self.norm(self.first(x)))

    model = Normalized()
    other, x = copy.deepcopy(model), torch.randn(3, 8)
    compiled(model, fallback="quiet")(x).float().sum().backward()
    other(x).float().sum().backward()
    for made, wanted in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(made.grad, wanted.grad, rtol=0.05, atol=0.05)


def test_strides_of_tensors_without_elements():
    def function(x):
        return x @ torch.ones(4, 5), x.sum(1, keepdim=True)

    for made, wanted in zip(
        torch.compile(function, backend="stepwell", dynamic=True)(torch.ones(0, 4)),
        function(torch.ones(0, 4)),
        strict=True,
    ):
        same(made, wanted)


def test_the_report_begins_again_at_a_reset():
    def function(x):
        torch._dynamo.graph_break()
        return x.sin()

    compiled(function)(torch.randn(3))
    assert stepwell.torch_report().graph_breaks
    torch._dynamo.reset()
    report = stepwell.torch_report()
    assert not report.graphs and not report.compiles and not report.graph_breaks
    compiled(function)(torch.randn(3))
    report = stepwell.torch_report()
    assert list(report.graph_breaks.values()) == [1]
    assert report.compiles
