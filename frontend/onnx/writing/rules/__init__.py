"""Forms in ONNX of the ops of the dialect, by subject."""
