"""Importers of classical machine learning (ai.onnx.ml)."""
