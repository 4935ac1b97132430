"""Runs what was compiled: artefacts, loading, calling. Needs numpy and the standard library; never imports mlir."""
