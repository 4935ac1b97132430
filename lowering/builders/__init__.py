"""Builders of code that several lowerings and targets share: scalars, linalg ops, tensors, strides, indices."""
