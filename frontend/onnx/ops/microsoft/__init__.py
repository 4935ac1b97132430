"""Importers of ONNX Runtime's own operators (com.microsoft)."""
