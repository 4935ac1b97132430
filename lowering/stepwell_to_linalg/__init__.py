"""Lowering of kernel bodies from the stepwell dialect to linalg on tensors, in destination-passing style."""
