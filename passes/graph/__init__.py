"""Passes on the stepwell dialect, model-shaped: canonicalise, fold, fuse composites, choose layouts."""
