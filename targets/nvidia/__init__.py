"""NVIDIA GPUs: their kernels, their code as PTX, and a simulator of PTX."""
