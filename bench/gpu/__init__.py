"""Checks and times programs for GPUs on a machine that may have neither network nor MLIR.

`prepare` compiles, here, what is to be run, and puts it into a folder with data, expected results and the part of
Stepwell that runs it; `run.py` in that folder needs numpy and cuda-bindings there, and torch for the peers.
"""
