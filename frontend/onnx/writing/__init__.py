"""Export of stepwell ops as ONNX."""
