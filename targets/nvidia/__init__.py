"""NVIDIA GPUs: kernels as lists of launches, their code as PTX, and a simulator that runs PTX."""
