"""Compiles one program for a range of sizes: tensors are allocated at their upper bounds and padded behind the data."""
