"""Decoders of language models in ONNX files, in the forms of ONNX Runtime GenAI and of optimum."""
