"""Kernels that reduce rows: softmax, norms and sums, with the ops on rows before and after."""
