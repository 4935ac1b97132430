"""Lowering of kernels from linalg to vector code by transform-dialect schedules."""
