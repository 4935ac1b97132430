"""Kernels: from linalg to vector code, by transform-dialect schedules."""
