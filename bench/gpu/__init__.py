"""Checks and times programs for GPUs on a machine that may have neither network nor MLIR.

`prepare` compiles the cases on this machine, and writes a folder with code, data, expected results and the runtime.
`run.py` in that folder needs numpy and cuda-bindings on the other machine, and torch for the peers.
"""
