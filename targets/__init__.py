"""Code generation for each family of machines: CPUs of two architectures, NVIDIA GPUs, and those of other packages."""
