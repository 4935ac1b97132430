"""Quantisation: converts a float model to one with narrow weights and activations, and reports the error.

small = stepwell.quantize("model.onnx", samples, max_error=0.02)
print(small.report.summary)
small.save("model.int8.onnx")
"""

from .float_model import QuantizationError
from .options import QuantizationOptions
from .quantize import QuantizedModel, quantize
from .report import QuantizationReport

__all__ = ["QuantizationError", "QuantizationOptions", "QuantizationReport", "QuantizedModel", "quantize"]
