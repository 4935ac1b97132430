"""Messages: the op, its module's path, and its line of Python."""

import re

import pytest
import stepwell

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

PLAIN = stepwell.Options(cache=False, fallback="error")


class Inner(torch.nn.Module):
    def forward(self, x):
        return torch.bincount(x.long())


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList([torch.nn.ReLU(), Inner()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def test_an_op_without_code_is_named():
    line = Inner.forward.__code__.co_firstlineno + 1
    with pytest.raises(stepwell.ModelError) as caught:
        stepwell.compile(Outer(), (torch.randn(4),), options=PLAIN)
    text = str(caught.value)
    op = r"node 'blocks\.1\.\w+' \(aten\.\w+\.\w+ on int64\[4\]\)"
    assert re.search(rf"Outer: .*{op} at .*test_errors\.py:{line}: ", text)


def test_random_numbers_are_rejected():
    module = torch.nn.Dropout(0.5)
    with pytest.raises(stepwell.ModelError, match=r"native_dropout.*call eval\(\) on the module"):
        stepwell.compile(module.train(), (torch.randn(4),), options=PLAIN)


class Branching(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


def test_what_torch_cannot_export_is_its_message():
    with pytest.raises(stepwell.ModelError, match=r"torch\.export failed with"):
        stepwell.compile(Branching(), (torch.randn(4),), options=PLAIN)


def test_a_module_needs_arguments():
    with pytest.raises(stepwell.ModelError, match="needs example arguments"):
        stepwell.compile(torch.nn.ReLU())


def test_an_exported_program_has_its_own_arguments():
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    with pytest.raises(stepwell.ModelError, match="has its own example arguments"):
        stepwell.compile(program, (torch.ones(2),))


def test_arguments_are_for_modules_only():
    with pytest.raises(stepwell.OptionError, match="for modules of torch"):
        stepwell.compile("model.onnx", (1,))


def test_a_damaged_file(tmp_path):
    (tmp_path / "m.pt2").write_bytes(b"PK\3\4 no program")
    with pytest.raises(stepwell.ModelError, match=r"m\.pt2: is not a program that torch.export.save wrote"):
        stepwell.compile(tmp_path / "m.pt2")
