"""Compiles a model of `stepwell-bench` for the cube unit and compares it with ONNX Runtime.

Prints the share of the model's operations that the unit computes, and its utilisation.
"""

import sys
from pathlib import Path

import numpy as np
import onnxruntime
import stepwell
from stepwell.bench.models import named

model = named(sys.argv[1])
path = str(model.file(Path()))
inputs = model.inputs(Path(path))
executable = stepwell.compile(path, target="cube:v1", options=stepwell.Options(shapes=model.shapes))
result = executable(**inputs)
(expected,) = onnxruntime.InferenceSession(path).run(None, inputs)

report = executable.report()
units = [item for item in report.kernels if item["device"].get("unit") == "cube"]
# Each product rounds its operands and its result to 11 bits; the errors of the products are independent.
tolerance = 2.0**-11 * np.sqrt(sum(item["calls"] for item in units))
allowed = tolerance * np.abs(expected).max()
assert np.abs(result - expected).max() <= allowed
# The largest elements are the same ones, except where two are closer to each other than that.
chosen = np.take_along_axis(expected, result.argmax(-1, keepdims=True), -1)
assert np.all(expected.max(-1, keepdims=True) - chosen <= 2 * allowed)
assert np.mean(result.argmax(-1) == expected.argmax(-1)) > 0.98
assert "utilisation" in str(report)

executable.save("model.stw")
np.testing.assert_array_equal(stepwell.load("model.stw")(**inputs), result)

work = [sum(item["flops"] * item["calls"] for item in items) for items in (units, report.kernels)]
cycles, compute = (sum(item["device"][key] * item["calls"] for item in units) for key in ("cycles", "compute"))
print(work[0] / work[1], compute / cycles)
