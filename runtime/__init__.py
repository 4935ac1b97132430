"""Loads and runs compiled models. Needs numpy and the standard library; never imports mlir."""
