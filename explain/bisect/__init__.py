"""Finds the op, kernel and pass that make a model's numbers wrong: level by level, from the model to native code."""
