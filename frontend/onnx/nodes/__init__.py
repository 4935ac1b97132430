"""A node during the import: its scope, inputs and attributes, its handler, and the functions that nodes call."""
