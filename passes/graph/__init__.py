"""Passes on the stepwell dialect at graph level: canonicalise, fold, fuse composites, choose layouts."""
