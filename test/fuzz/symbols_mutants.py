"""Random ONNX models: the bytes of a mutant are the seed of its model."""

from graph_mutants import mutant

__all__ = ["mutant"]
