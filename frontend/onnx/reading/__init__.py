"""Reads ONNX files: parsing, checks before anything is built, stored tensors, and ONNX's own inference of types."""
