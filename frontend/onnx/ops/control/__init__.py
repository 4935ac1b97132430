"""Importers of control flow and of sequences of tensors."""
