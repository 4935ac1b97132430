"""Passes that find the shapes of values: inference, symbolic contents of shape tensors, binding to shapes of inputs."""
