"""Passes on kernels while they are linalg on tensors."""
