"""From kernels of linalg on tensors to launches on a GPU."""
