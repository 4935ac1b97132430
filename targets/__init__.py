"""Targets: what is specific to one kind of machine, from kernels to code."""
