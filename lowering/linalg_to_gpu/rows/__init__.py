"""Kernels that reduce rows: softmax, norms, sums, and whatever is computed of rows before and after."""
