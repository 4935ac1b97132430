"""Modules that differ from what they declare: each ends in one clear error."""

import os

import numpy as np
import pytest
import stepwell
from stepwell.frontend.errors import ModelError
from stepwell.passes.infra.base import PassError
from stepwell.tools import compile, opt, run

IDENTITY = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"


@pytest.mark.parametrize(
    "text",
    [
        "module { func.func private @main(tensor<4xf32>) -> tensor<4xf32> }",
        "module { memref.global @main : memref<4xf32> }",
    ],
)
def test_main_without_a_body(text):
    with pytest.raises(ModelError, match="must be a function with a body"):
        stepwell.compile(text.encode(), options=stepwell.Options(cache=False))


@pytest.mark.parametrize(
    ("phase", "error", "message"),
    [("bogus", PassError, "there is no phase 'bogus'"), ("llvm", ModelError, "has no attribute 'stepwell.interface'")],
)
def test_module_in_another_phase_than_declared(phase, error, message):
    text = f'module attributes {{stepwell.phase = "{phase}"}} {{ {IDENTITY} }}'
    with pytest.raises(error, match=message):
        stepwell.compile(text.encode(), options=stepwell.Options(cache=False))


@pytest.mark.parametrize("pair", ["[]", "()"])
def test_text_that_is_nested_deeper_than_the_stack(pair):
    text = f"module attributes {{x = {pair[0] * 100_000}{pair[1] * 100_000}}} {{ {IDENTITY} }}"
    with pytest.raises(ModelError, match="nested too deep"):
        stepwell.compile(text.encode(), options=stepwell.Options(cache=False))


def test_text_that_aborts_the_parser():
    text = IDENTITY.replace("return", "func.call @f() {x = array<index: 1>} : () -> () return")
    with pytest.raises(ModelError, match="SIGABRT"):
        stepwell.compile(text.encode(), options=stepwell.Options(cache=False))


def test_modules_that_crash_the_compiler(monkeypatch):
    """Modules after the phase `graph` are compiled in a child process first."""
    phases = {}
    model = IDENTITY.replace(
        "return %x", '%y = "stepwell.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32> return %y'
    ).encode()
    options = stepwell.Options(
        cache=False, reached=lambda phase, module, parameters: phases.update({phase: str(module)})
    )
    stepwell.compile(model, threads=1, options=options)
    text = phases["kernels"].replace("module attributes {", 'module attributes {stepwell.phase = "kernels", ', 1)
    x = np.ones(4, np.float32)
    np.testing.assert_array_equal(stepwell.compile(text.encode(), threads=1)(x), -x)

    def aborts(*_, **__):
        os.abort()

    monkeypatch.setattr("stepwell.driver.compile.compilation.generate", aborts)
    with pytest.raises(PassError, match=r"crashed \(SIGABRT\) in the passes after phase 'llvm'"):
        stepwell.compile(text.encode(), threads=1, options=stepwell.Options(cache=False))


@pytest.mark.parametrize("main", [compile.main, run.main, opt.main])
@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "/", "huge.onnx"])
def test_files_that_are_not_models(main, name, tmp_path, monkeypatch, capfd):
    """They were read until memory was full, or for hours."""
    monkeypatch.chdir(tmp_path)
    with open("huge.onnx", "wb") as file:
        file.truncate(1 << 42)
    assert main([name]) == 1
    told = capfd.readouterr().err
    assert len(told.splitlines()) == 1 and "internal" not in told
    assert "file" in told or "directory" in told
