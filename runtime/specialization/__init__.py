"""The code of a model for any input shapes: chosen, compiled and loaded as calls need it."""
