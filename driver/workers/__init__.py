"""Compiles kernels to native objects, several at once in worker processes."""
