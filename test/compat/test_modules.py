"""The drop-in under ONNX Runtime's name: imports from it, and programs that run on it."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from stepwell.compat import onnxruntime as ort

INSTALL = "import stepwell.compat.onnxruntime as here; here.install()\n"


def said(code: str, *arguments: str) -> str:
    """Returns the output of a program in a separate process."""
    command = [sys.executable, *(arguments or ("-c", code))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_install_takes_the_place_of_the_module():
    code = """
import onnxruntime
from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions, get_available_providers, get_device
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument
from onnxruntime.capi._pybind_state import SessionOptions as same
import onnxruntime.capi.onnxruntime_pybind11_state as state
assert onnxruntime is here and state.NoSuchFile is here.errors.NoSuchFile and same is SessionOptions
assert get_available_providers() == ["CPUExecutionProvider"] and get_device() == "CPU"
"""
    said(INSTALL + code)


def test_install_refuses_where_the_true_module_is_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", SimpleNamespace())
    with pytest.raises(RuntimeError, match="before the first import"):
        ort.install()


def test_modules_are_found_by_those_that_look_first():
    code = """
import importlib.metadata, importlib.util
from onnxruntime.capi import onnxruntime_validation
from onnxruntime.capi.onnxruntime_inference_collection import Session, check_and_normalize_provider_args
assert importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnxruntime.capi")
assert importlib.util.find_spec("onnxruntime.training") is None
assert importlib.metadata.version("onnxruntime")
try:
    import onnxruntime.training
except ModuleNotFoundError:
    print("no training")
"""
    assert said(INSTALL + code) == "no training\n"


def test_a_version_is_known_where_onnxruntime_is_not_installed():
    code = """
import importlib.metadata, sys
sys.path = [folder for folder in sys.path if "site-packages" not in folder]
print(importlib.metadata.version("onnxruntime"))
"""
    assert said(INSTALL + code).strip() == ort.__version__


@pytest.mark.sweep
def test_parts_that_are_python_alone_run_on_the_drop_in(tmp_path):
    pytest.importorskip("onnxruntime.quantization")
    code = f"""
import logging, numpy as np, onnx, os, warnings
from onnx import TensorProto, helper
os.chdir({str(tmp_path)!r})
logging.disable()
weight = onnx.numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 3), ("y", 4))]
graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [weight])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "model.onnx")
from onnxruntime.quantization import CalibrationDataReader, quantize_static
import onnxruntime

class Data(CalibrationDataReader):
    left = [np.ones((2, 3), np.float32), -np.ones((2, 3), np.float32)]
    def get_next(self):
        return {{"x": self.left.pop()}} if self.left else None

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    quantize_static("model.onnx", "quantized.onnx", Data())
(y,) = onnxruntime.InferenceSession("quantized.onnx").run(None, {{"x": np.ones((1, 3), np.float32)}})
assert np.abs(y - [[12, 15, 18, 21]]).max() < 0.3, y
assert onnxruntime.__name__ == "stepwell.compat.onnxruntime"
"""
    said(INSTALL + code)


def test_parts_are_imported_from_the_module_too():
    pytest.importorskip("onnxruntime.quantization")
    code = """
from onnxruntime import quantization
import onnxruntime
assert onnxruntime is here and quantization.__name__ == "onnxruntime.quantization" and not hasattr(here, "training")
"""
    said(INSTALL + code)


def test_a_program_is_run_with_its_arguments(tmp_path):
    program = tmp_path / "program.py"
    (tmp_path / "beside.py").write_text("import onnxruntime\n")
    program.write_text(
        "import sys, beside, onnxruntime\n"
        "if __name__ == '__main__': print(onnxruntime.__name__, sys.argv[0] == __file__, sys.argv[1:])\n"
    )
    run = ("-m", "stepwell.compat.onnxruntime")
    assert said("", *run, str(program), "-m", "x") == "stepwell.compat.onnxruntime True ['-m', 'x']\n"
    assert said("", *run, "-m", "platform").strip()
    assert "program.py arguments" in said("", *run, "--help")
    done = subprocess.run([sys.executable, *run, "nowhere.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "nowhere.py: there is no such file" in done.stderr
