"""Kernels to native objects, several at once in processes of their own."""
