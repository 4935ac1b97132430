"""Ops at which the compiler itself fails run in PyTorch, all others are compiled, and one warning names them."""

import copy
import warnings

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from stepwell.compat.torch import backend  # noqa: E402
from stepwell.dialects.stepwell.normalization import SoftmaxOp  # noqa: E402
from stepwell.frontend.torch import registry  # noqa: E402
from stepwell.lowering.stepwell_to_linalg.rules import LINALG  # noqa: E402
from torch import nn  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def failing_importer(monkeypatch):
    """Returns a function that makes the importer of an overload fail, as one of a plug-in may."""

    def fail(overload, error):
        def handler(node, **arguments):
            raise error

        assert overload in registry.supported_overloads()
        monkeypatch.setitem(registry._HANDLERS, overload, handler)

    return fail


@pytest.fixture
def failing_softmax(monkeypatch):
    """Makes the lowering of softmax fail."""
    LINALG.of(SoftmaxOp)  # imports the rules

    def rule(op, inputs, outs):
        raise ValueError("no such luck\nin two lines")

    monkeypatch.setitem(LINALG._attached, SoftmaxOp, rule)
    LINALG._find.cache_clear()
    yield
    monkeypatch.undo()
    LINALG._find.cache_clear()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.act = nn.Linear(8, 8), nn.Tanh()

    def forward(self, x):
        return self.act(self.inner(x).relu())


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.choice, self.last = nn.Softmax(-1), nn.Linear(8, 3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.last(self.choice(x).relu()).sin()


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv1d(3, 4, 3), nn.Conv1d(4, 2, 3)

    def forward(self, x):
        return self.last(self.first(x).tanh().softmax(-1)).sigmoid()


def run_once(model, *inputs, dynamic=None, **options):
    """Compiles and calls a model without gradients; returns the result and the texts of the warnings."""
    run = torch.compile(model, backend="stepwell", dynamic=dynamic, options={"cache": False, **options})
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", stepwell.StepwellWarning)
        results = [run(x) for x in inputs]
    for x, made in zip(inputs, results, strict=True):
        torch.testing.assert_close(made, model(x), rtol=1e-4, atol=1e-5)
    return [str(item.message) for item in caught if issubclass(item.category, stepwell.StepwellWarning)]


def on_torch(kind="inference"):
    (graph,) = [graph for graph in stepwell.torch_report().graphs if graph.kind == kind]
    assert graph.pieces
    return {item.node: item for item in graph.on_torch}


def test_an_importer_that_fails(failing_importer):
    failing_importer("aten.tanh.default", AttributeError("no attribute 'x'"))
    model = Model()
    (text,) = run_once(model, torch.randn(4, 8))
    assert "2 ops run in PyTorch between compiled pieces: aten.tanh.default (blocks.0.act.tanh at " in text
    assert "torch/nn" not in text and f"{__file__}:" in text
    assert "its importer failed with AttributeError: no attribute 'x'" in text and "\n" not in text
    found = on_torch()
    assert list(found) == ["blocks.0.act.tanh", "blocks.1.act.tanh_1"]
    assert str(found["blocks.0.act.tanh"]) in str(stepwell.torch_report())
    checked = stepwell.check(model, args=(torch.randn(4, 8),))
    assert [(item.node, item.line, item.reason) for item in checked.findings] == [
        (item.node, item.line, item.reason) for item in found.values()
    ]


def test_a_lowering_that_fails(failing_softmax):
    (text,) = run_once(Model(), torch.randn(4, 8))
    assert "1 op runs in PyTorch between compiled pieces: aten.softmax.int (choice.softmax at " in text
    assert "the compiler failed: ValueError: no such luck / in two lines" in text
    assert "stepwell-convert-to-linalg" in text and "\n" not in text
    (found,) = on_torch().values()
    assert (found.kind, found.pass_name) == ("error", "stepwell-convert-to-linalg")


def test_an_exported_program_whose_lowering_fails(failing_softmax):
    model, x = Model().eval(), torch.randn(4, 8)
    with pytest.warns(stepwell.FallbackWarning, match=r"1 op runs .* aten\.softmax\.int \(choice\.softmax at "):
        run = stepwell.compile(model, (x,), options=stepwell.Options(cache=False))
    torch.testing.assert_close(run(x), model(x), rtol=1e-4, atol=1e-5)
    assert [item.node for item in run.fallbacks] == ["choice.softmax"]
    with pytest.raises(stepwell.CompileError, match="no such luck"):
        stepwell.compile(model, (x,), options=stepwell.Options(cache=False, fallback="error"))


def test_two_nodes_fail_for_different_reasons(failing_importer, failing_softmax):
    failing_importer("aten.sin.default", RuntimeError("no sine"))
    (text,) = run_once(Model(), torch.randn(4, 8))
    assert "2 ops run" in text and "no sine" in text and "no such luck" in text
    assert set(on_torch()) == {"choice.softmax", "sin"}


@pytest.mark.few(1)
@pytest.mark.parametrize("bounds", [{}, {"min": 2, "max": 64}], ids=["unbounded", "bounded"])
def test_sizes_vary(failing_importer, failing_softmax, bounds):
    failing_importer("aten.sin.default", RuntimeError("no sine"))
    inputs = [torch.randn(rows, 8) for rows in (4, 9, 5, 17)]
    for x in inputs:
        torch._dynamo.mark_dynamic(x, 0, **bounds)
    (text,) = run_once(Model(), *inputs)
    assert "2 ops run" in text
    assert set(on_torch()) == {"choice.softmax", "sin"}
    (graph,) = stepwell.torch_report().graphs
    programs = [program for piece in graph.pieces.values() for program in piece.programs]
    assert sum(program.bounds is not None for program in programs) == 2
    assert len(programs) <= 4


def test_both_graphs_of_training(failing_importer, failing_softmax):
    failing_importer("aten.convolution_backward.default", KeyError("gone"))
    model = Convolutions()
    other, x = copy.deepcopy(model), torch.randn(2, 3, 12)
    run = torch.compile(model, backend="stepwell", options={"cache": False})
    with pytest.warns(stepwell.FallbackWarning) as caught:
        run(x).square().sum().backward()
    other(x).square().sum().backward()
    for made, wanted in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(made.grad, wanted.grad, rtol=1e-4, atol=1e-5)
    assert {item.op_type for item in on_torch("forward").values()} == {"aten._softmax.default"}
    found = on_torch("backward")
    assert [item.op_type for item in found.values()] == ["aten.convolution_backward.default"] * 2
    assert [name.partition(".")[0] for name in found] == ["last", "first"] and all(item.line for item in found.values())
    assert len(caught) == 2


def test_an_op_that_fails_everywhere_is_not_tried_again(failing_softmax, monkeypatch):
    def function(x):
        for _ in range(12):
            x = (x * 2).softmax(-1).sin()
        return x

    (text,) = run_once(function, torch.randn(4, 8))
    assert "12 ops run" in text
    assert len(on_torch()) == 12


def failing_on(name, monkeypatch, error):
    """Makes the compile of each piece with an op of some name fail with an error that names no op."""
    whole, tried = backend.compile_piece, []

    def compile_piece(program, setup):
        tried.append(program)
        nodes = program.program.graph.nodes
        if any(node.op == "call_function" and name in str(node.target) for node in nodes):
            raise error
        return whole(program, setup)

    monkeypatch.setattr(backend, "compile_piece", compile_piece)
    return tried


def test_an_error_without_a_place_is_searched_by_halves(monkeypatch):
    def function(x):
        for _ in range(20):
            x = x.sin() + 1
        return x.cos() * x

    tried = failing_on("cos", monkeypatch, RuntimeError("no such luck"))
    (text,) = run_once(function, torch.randn(4, 8))
    assert "1 op runs" in text and "cos at" in text and "RuntimeError: no such luck" in text
    assert list(on_torch()) == ["cos"]
    assert len(tried) < 20


def test_ops_of_one_kind_that_fail_without_a_place(monkeypatch):
    def function(x):
        for _ in range(12):
            x = (x * 2).cos().sin()
        return x.tanh()

    tried = failing_on("cos", monkeypatch, RuntimeError("no such luck"))
    (text,) = run_once(function, torch.randn(4, 8))
    assert "12 ops run" in text
    assert [item.op_type for item in on_torch().values()] == ["aten.cos.default"] * 12
    assert len(tried) < 30


def test_a_compiler_that_always_fails(monkeypatch):
    def function(x):
        for _ in range(200):
            x = x.sin() + 1
        return x

    tried = failing_on("", monkeypatch, MemoryError())
    (text,) = run_once(function, torch.randn(4, 8))
    assert "400 ops run" in text and "the compiler failed: MemoryError" in text
    assert len(tried) < 500
    (graph,) = stepwell.torch_report().graphs
    assert len(graph.on_torch) == 400 and not graph.pieces


def test_an_error_outside_of_the_pieces(monkeypatch):
    def fail(*arguments):
        raise LookupError("no such luck")

    monkeypatch.setattr(backend, "divide", fail)
    model = Model()
    (text,) = run_once(model, torch.randn(4, 8))
    assert "run in PyTorch: the compiler failed: LookupError: no such luck; this is a bug" in text
    (graph,) = stepwell.torch_report().graphs
    assert "choice.softmax" in [item.node for item in graph.on_torch]
    assert "Traceback" in graph.note and "no such luck" in graph.note
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(Exception, match="no such luck"):
        torch.compile(model, backend="stepwell", options={"fallback": "error"})(torch.randn(4, 8))


def test_a_rule_that_fails_to_decompose(monkeypatch):
    def rule(*arguments):
        raise LookupError("no such luck")

    real = backend.python_decompositions
    monkeypatch.setattr(backend, "python_decompositions", lambda: {**real(), torch.ops.aten.logit.default: rule})
    (text,) = run_once(lambda x: x.sigmoid().logit(), torch.randn(4, 8))
    assert "no such luck" in text
    (graph,) = stepwell.torch_report().graphs
    assert graph.kind == "untraced" and graph.on_torch


def test_calls_that_fail(monkeypatch):
    from stepwell.frontend.torch.calls import TensorCall

    class Layouts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Conv2d(3, 4, 3)

        def forward(self, x):
            y = self.layer(x).relu()
            return y, y.sum((2, 3)).T

    def fail(*arguments):
        raise MemoryError("no such luck")

    model = Layouts().to(memory_format=torch.channels_last)
    x = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
    monkeypatch.setattr(TensorCall, "_prepare", fail)
    run = torch.compile(model, backend="stepwell", options={"cache": False, "freezing": True})
    with torch.no_grad():
        with pytest.warns(stepwell.FallbackWarning, match="Conv2d: PyTorch ran the ops of a call.*no such luck"):
            made = run(x)
        for ours, theirs in zip(made, model(x), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
            assert ours.stride() == theirs.stride()
    (graph,) = stepwell.torch_report().graphs
    assert "MemoryError: no such luck" in graph.note
    torch._dynamo.reset()
    with torch.no_grad(), pytest.raises(MemoryError):
        torch.compile(model, backend="stepwell", options={"cache": False, "fallback": "error"})(x)
