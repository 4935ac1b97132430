"""Lowering of kernels of linalg on tensors to launches on a GPU."""
