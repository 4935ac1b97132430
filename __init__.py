"""Stepwell: a multi-level ML compiler on the upstream MLIR bindings."""
