"""Lowering of ops that sort, select or suppress elements: their order depends on the data."""
