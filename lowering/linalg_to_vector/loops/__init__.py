"""Lowering from linalg.generic on tensors to loops over vectors, for every kernel that is not a contraction."""
